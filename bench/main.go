// Command bench measures fairsem beside its peers on a private redis-server, and writes down what it
// found. `make bench` in the folder above runs all of it; README.md says what is measured.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"regexp"
	"strings"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9/logging"
)

func main() { os.Exit(execute(os.Args[1:], os.Stdout, os.Stderr)) }

// execute returns the exit code: 1 if something broke, 2 if the command line makes no sense. A target
// that was missed is no failure.
func execute(args []string, stdout, stderr io.Writer) int {
	// go-redis tells of every connection that a closed server ends. What matters comes back as an error.
	logging.Disable()
	var err error
	if len(args) == 1 && args[0] == workerArg {
		err = serve(os.Stdin, stdout)
	} else {
		s, bad := parse(args, stderr)
		switch {
		case errors.Is(bad, flag.ErrHelp):
			return 0
		case bad != nil:
			return 2
		}
		err = compare(s, stdout, stderr)
	}
	if err != nil {
		_, _ = fmt.Fprintf(stderr, "bench: %v\n", err) // there is nobody else to tell
		return 1
	}
	return 0
}

// parse tells on stderr what is wrong with args.
func parse(args []string, stderr io.Writer) (settings, error) {
	s := settings{only: regexp.MustCompile("")}
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.IntVar(&s.Rounds, "rounds", 5, "measure every contender so many `times`, in turn")
	flags.DurationVar(&s.Duration, "duration", 2*time.Second, "of a measurement under contention; others take half of it")
	flags.BoolVar(&s.Smoke, "smoke", false, "everything once, tiny: proves only that the bench runs")
	flags.StringVar(&s.out, "out", "results", "`folder` for what was found")
	flags.Func("run", "only workloads that match the `regexp`: "+strings.Join(studyNames(), ", "), func(text string) (err error) {
		s.only, err = regexp.Compile(text)
		return err
	})
	flags.Func("redis-server", "`binary` to start; the default is redis-server", func(path string) error {
		return os.Setenv("FAIRSEM_REDIS_SERVER", path)
	})
	if err := flags.Parse(args); err != nil {
		return s, err
	}
	if s.Smoke {
		s.Rounds, s.Duration = 1, 100*time.Millisecond
	}
	var err error
	if flags.NArg() > 0 || s.Rounds < 1 || s.Duration <= 0 {
		err = errors.New("bench takes no arguments but flags; rounds and duration are above 0")
		_, _ = fmt.Fprintln(stderr, err) // there is nobody else to tell
	}
	return s, err
}

// compare runs everything that s asks for.
func compare(s settings, stdout, stderr io.Writer) (err error) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	b, err := newBench(ctx, s, stderr)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.server.stop()) }()
	sections, err := b.run(ctx)
	if ctx.Err() != nil {
		return errors.New("interrupted; nothing was written") // what broke then says nothing
	}
	if err != nil {
		return err
	}
	r := report{Settings: s, Machine: b.machine, Sections: sections}
	if err := r.save(s.out); err != nil {
		return err
	}
	_, err = fmt.Fprintln(stdout, strings.TrimSpace(r.warning()+"\n\n"+r.targets()))
	return err
}
