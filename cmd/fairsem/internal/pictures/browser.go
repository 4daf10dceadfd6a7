package main

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
)

// served is a fairsem serve.
type served struct {
	url string
	cmd *exec.Cmd
}

func startServe(ctx context.Context, program, addr string) (*served, error) {
	cmd := exec.CommandContext(ctx, program, "serve", "--redis", "redis://"+addr, "--listen", "127.0.0.1:0")
	cmd.Stderr = os.Stderr
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	s := &served{cmd: cmd}
	said, err := bufio.NewReader(stdout).ReadString('\n')
	if err != nil {
		s.stop()
		return nil, fmt.Errorf("it says no address: %w", err)
	}
	s.url = strings.TrimSpace(said)
	return s, nil
}

func (s *served) stop() {
	_ = s.cmd.Process.Kill() // it holds nothing
	_ = s.cmd.Wait()
}

// shoot writes a picture of the page.
func (s *served) shoot(ctx context.Context, file string) error {
	profile, err := os.MkdirTemp("", "pictures-chromium-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(profile) }()
	ctx, cancel := context.WithTimeout(ctx, 2*patience)
	defer cancel()
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.UserDataDir(profile))
	if os.Getuid() == 0 {
		options = append(options, chromedp.NoSandbox) // Chromium has none for root
	}
	ctx, stop := chromedp.NewExecAllocator(ctx, options...)
	defer stop()
	ctx, quit := chromedp.NewContext(ctx)
	defer quit()
	if err := chromedp.Do(ctx); err != nil {
		return err
	}
	_, err = chromedp.Call(ctx, emulation.SetDeviceMetricsOverride, emulation.SetDeviceMetricsOverrideParams{Width: 1200, Height: 600, DeviceScaleFactor: 1})
	if err != nil {
		return err
	}
	if err := chromedp.Do(ctx, chromedp.Navigate(s.url)); err != nil {
		return err
	}
	if err := pause(ctx, 5*time.Second); err != nil { // it draws the incoming events
		return err
	}
	picture, err := chromedp.Run(ctx, chromedp.FullScreenshot(100))
	if err != nil {
		return err
	}
	return os.WriteFile(file, picture, 0o644) //nolint:gosec // a picture of the repository
}
