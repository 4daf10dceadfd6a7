// Command bench compares fairsem with its peers on a private redis-server and writes the results. "make bench" in the parent folder
// runs all workloads. README.md describes what is measured.
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

// execute returns the exit code: 1 if something failed, 2 if the command line is invalid. A missed target is not a failure.
func execute(args []string, stdout, stderr io.Writer) int {
	// go-redis logs every connection that a stopped server closes. Everything that matters is returned as an error.
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
		_, _ = fmt.Fprintf(stderr, "bench: %v\n", err) // an error of stderr cannot be reported
		return 1
	}
	return 0
}

// partly is the folder for the results of some workloads, which must not replace those of all.
const partly = "../.bin/bench"

// parse parses the flags. It also writes its error to stderr.
func parse(args []string, stderr io.Writer) (settings, error) {
	s := settings{only: regexp.MustCompile("")}
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.IntVar(&s.Rounds, "rounds", 5, "number of `rounds`; each measures every contender once")
	flags.DurationVar(&s.Duration, "duration", 2*time.Second, "length of a measurement under contention; others take half of it")
	flags.BoolVar(&s.Smoke, "smoke", false, "run tiny workloads once; this proves only that the bench runs")
	flags.StringVar(&s.out, "out", "results", "`folder` for the results; of a part, with -run, it is "+partly+" unless it is given")
	flags.Func("run", "run only workloads that match the `regexp`: "+strings.Join(workloadNames(), ", "), func(text string) (err error) {
		s.only, err = regexp.Compile(text)
		return err
	})
	flags.Func("redis-server", "`binary` to start; the default is redis-server", func(path string) error {
		return os.Setenv("FAIRSEM_REDIS_SERVER", path)
	})
	if err := flags.Parse(args); err != nil {
		return s, err
	}
	given := false
	flags.Visit(func(f *flag.Flag) { given = given || f.Name == "out" })
	if !given && s.only.String() != "" {
		s.out = partly
	}
	if s.Smoke {
		s.Rounds, s.Duration = 1, 100*time.Millisecond
	}
	var err error
	if flags.NArg() > 0 || s.Rounds < 1 || s.Duration <= 0 {
		err = errors.New("bench takes flags only; -rounds and -duration must be above 0")
		_, _ = fmt.Fprintln(stderr, err) // an error of stderr cannot be reported
	}
	return s, err
}

// compare runs the workloads that s selects.
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
		return errors.New("interrupted; no results were written") // an error after an interrupt means nothing
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
