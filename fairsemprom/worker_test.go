package fairsemprom_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/fairsem/fairsem"
	"github.com/fairsem/fairsem/fairsemprom"
	"github.com/fairsem/fairsem/internal/worldtest"
)

// order is the task of a worker: a program with fairsemprom under load.
type order struct{ Redis string }

// Work prints the URL of the metrics.
func (o order) Work(ctx context.Context) error {
	observer, err := fairsemprom.New(fairsemprom.Options{})
	if err != nil {
		return err
	}
	registry := prometheus.NewRegistry()
	if err := registry.Register(observer); err != nil {
		return err
	}
	server := httptest.NewServer(promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
	defer server.Close()
	fmt.Println(server.URL)

	rdb := redis.NewClient(&redis.Options{Addr: o.Redis})
	defer func() { _ = rdb.Close() }() // the process ends
	client, err := fairsem.New(rdb, fairsem.Options{Observer: observer.Observe})
	if err != nil {
		return err
	}
	db, err := client.Semaphore("db", 3)
	if err != nil {
		return err
	}
	api, err := client.Limiter("api", 5, 200*time.Millisecond)
	if err != nil {
		return err
	}
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() { useDatabase(ctx, db) }) // they end with ctx
	}
	all.Go(func() {
		for ctx.Err() == nil {
			_ = api.Wait(ctx, 1) // ctx has ended, or Redis
		}
	})
	all.Wait()
	return client.Close()
}

func useDatabase(ctx context.Context, db *fairsem.Semaphore) {
	for ctx.Err() == nil {
		_ = db.Do(ctx, 1, func(context.Context) error { // ctx has ended, or Redis
			time.Sleep(50 * time.Millisecond) // the work
			return nil
		})
		if permit, err := db.TryAcquire(ctx, 1); err == nil {
			_ = permit.Release(ctx) // as above
		}
	}
}

// startWorker starts a worker and returns the address of its metrics.
func startWorker(t *testing.T, redis string) string {
	t.Helper()
	line, err := worldtest.Start(t, order{redis}).Out.ReadString('\n')
	require.NoError(t, err)
	return line[len("http://") : len(line)-1]
}

// start starts a program that ends with its standard input, which the end of the test or of this process closes.
func start(t *testing.T, cmd *exec.Cmd) (stdout *bufio.Reader) {
	t.Helper()
	in, err := cmd.StdinPipe()
	require.NoError(t, err)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	reader := bufio.NewReader(out)
	t.Cleanup(func() {
		_ = in.Close()
		_, _ = io.Copy(io.Discard, reader) // until it has ended
		var exit *exec.ExitError
		if err := cmd.Wait(); err != nil && !errors.As(err, &exit) {
			t.Error(err)
		}
	})
	return reader
}

// startAt starts a program that knows nothing of its standard input, and returns what it writes about where it is, in the one
// group of a regular expression.
func startAt(t *testing.T, where *regexp.Regexp, args ...string) (found string) {
	t.Helper()
	log := filepath.Join(t.TempDir(), "log")
	const script = `"$@" >"$0" 2>&1 & cat >/dev/null; kill $!; wait $!`
	start(t, exec.Command("sh", append([]string{"-c", script, log}, args...)...))
	var text []byte
	defer func() {
		if found == "" {
			t.Logf("%s wrote: %s", args[0], text)
		}
	}()
	require.Eventually(t, func() bool {
		text, _ = os.ReadFile(log) // the shell makes it
		if match := where.FindSubmatch(text); match != nil {
			found = string(match[1])
		}
		return found != ""
	}, soon, often, "%s does not say where it is", args[0])
	return found
}

// fetch returns the body of a response, or an error if it is not a 200.
func fetch(t *testing.T, url string) ([]byte, error) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, http.NoBody)
	require.NoError(t, err)
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, err
	}
	defer func() { _ = response.Body.Close() }() // it was read
	body, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s: %s", url, response.Status, body)
	}
	return body, err
}
