// Command chaos runs processes that share semaphores while workers, servers and the network between them fail. Afterwards it
// checks whether fairsem kept its promises. "make chaos" in the parent folder runs all faults. README.md describes the faults and
// the checks.
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
	"syscall"
	"time"

	"github.com/redis/go-redis/v9/logging"
)

func main() { os.Exit(execute(os.Args[1:], os.Stdout, os.Stderr)) }

// settings are the values of the flags.
type settings struct {
	Length   time.Duration `json:"length"` // of each run
	Seeds    int           `json:"seeds"`  // the number of runs of each fault
	Seed     uint64        `json:"seed"`   // of the first run of each fault
	Parallel int           `json:"parallel"`
	Smoke    bool          `json:"smoke"`
	only     *regexp.Regexp
	out      string
	keep     string
	list     bool
	broken   bool
}

// execute returns the exit code: 1 if a promise was broken or a run failed, 2 if the command line is invalid.
func execute(args []string, stdout, stderr io.Writer) int {
	// go-redis logs every connection that a stopped server closes. Everything that matters is returned as an error.
	logging.Disable()
	var err error
	if len(args) == 1 && args[0] == workerArg {
		err = serve(os.Stdin)
	} else {
		s, bad := parse(args, stderr)
		switch {
		case errors.Is(bad, flag.ErrHelp):
			return 0
		case bad != nil:
			return 2
		}
		err = runFaults(s, stdout, stderr)
	}
	if err != nil {
		_, _ = fmt.Fprintf(stderr, "chaos: %v\n", err) // an error of stderr cannot be reported
		return 1
	}
	return 0
}

// parse parses the flags. It also writes its error to stderr.
func parse(args []string, stderr io.Writer) (settings, error) {
	s := settings{only: regexp.MustCompile("")}
	flags := flag.NewFlagSet("chaos", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.DurationVar(&s.Length, "for", 10*time.Second, "length of a run")
	flags.IntVar(&s.Seeds, "seeds", 1, "number of runs of each fault, each with the next `seed`")
	flags.Uint64Var(&s.Seed, "seed", 0, "seed of the first run of each fault; 0: taken from the clock")
	flags.IntVar(&s.Parallel, "parallel", 2, "number of runs at the same time")
	flags.BoolVar(&s.Smoke, "smoke", false, "run only a selection of faults")
	flags.BoolVar(&s.list, "list", false, "only list the faults")
	flags.BoolVar(&s.broken, "broken", false, "run broken variants of the library, and fail unless the checks find each of them; -run then selects variants by name")
	flags.StringVar(&s.out, "out", "results", "`folder` for the results; empty: write none, as with -run unless it is given")
	flags.StringVar(&s.keep, "keep", "", "`folder` for the histories of all runs; empty: keep none")
	flags.Func("run", "run only faults whose name and kind of server match the `regexp`", func(text string) (err error) {
		s.only, err = regexp.Compile(text)
		return err
	})
	if err := flags.Parse(args); err != nil {
		return s, err
	}
	given := false
	flags.Visit(func(f *flag.Flag) { given = given || f.Name == "out" })
	if !given && s.only.String() != "" {
		s.out = "" // those of some faults must not replace the results of all
	}
	if s.Seed == 0 {
		s.Seed = uint64(time.Now().Unix())
	}
	var err error
	if flags.NArg() > 0 || s.Seeds < 1 || s.Parallel < 1 || s.Length < time.Second {
		err = errors.New("chaos takes flags only; -seeds and -parallel must be above 0, and -for at least 1s")
		_, _ = fmt.Fprintln(stderr, err) // an error of stderr cannot be reported
	}
	return s, err
}

// runFaults runs or lists the selected faults, or runs broken variants.
func runFaults(s settings, stdout, stderr io.Writer) error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if s.broken {
		return findAllBroken(ctx, s, stdout)
	}
	chosen := s.faults()
	if len(chosen) == 0 {
		return errors.New("no fault matches -run; -list shows all faults")
	}
	if s.list {
		for _, f := range chosen {
			_, _ = fmt.Fprintf(stdout, "%s, %s\n", f.name, f.kind) // an error of stdout cannot be reported
		}
		return nil
	}
	binary, err := os.Executable()
	if err != nil {
		return err
	}
	r := report{Settings: s, Machine: newMachine(ctx), Rows: executeAll(ctx, s.runs(chosen, binary), s.Parallel, stderr)}
	if ctx.Err() != nil {
		return errors.New("interrupted; no results were written")
	}
	_, _ = fmt.Fprintln(stdout, r.text()) // an error of stdout cannot be reported
	return errors.Join(r.save(s.out), r.verdict())
}

// faults returns the faults that s selects.
func (s settings) faults() []fault {
	var chosen []fault
	for _, f := range faults() {
		if s.only.MatchString(f.name+", "+f.kind) && (f.smoke || !s.Smoke) {
			chosen = append(chosen, f)
		}
	}
	return chosen
}

// runs returns the runs of the chosen faults, one for each seed.
func (s settings) runs(chosen []fault, binary string) []run {
	var all []run
	for _, f := range chosen {
		for i := range s.Seeds {
			all = append(all, run{fault: f, seed: s.Seed + uint64(i), length: s.Length, binary: binary, keep: s.keep})
		}
	}
	return all
}
