// Command chaos has several processes share semaphores while workers, servers and the network between
// them break, and looks afterwards whether anybody saw a promise of fairsem broken. `make chaos` in the
// folder above runs all of it; README.md says what is broken and what is looked at.
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

// settings are what the command line says.
type settings struct {
	Length   time.Duration `json:"length"` // of a run
	Seeds    int           `json:"seeds"`  // runs of each fault
	Seed     uint64        `json:"seed"`   // of the first of them
	Parallel int           `json:"parallel"`
	Smoke    bool          `json:"smoke"`
	only     *regexp.Regexp
	out      string
	keep     string
	list     bool
	broken   bool
}

// execute returns the exit code: 1 if a promise was broken or something else was, 2 if the command line
// makes no sense.
func execute(args []string, stdout, stderr io.Writer) int {
	// go-redis tells of every connection that a closed server ends. What matters comes back as an error.
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
		err = rage(s, stdout, stderr)
	}
	if err != nil {
		_, _ = fmt.Fprintf(stderr, "chaos: %v\n", err) // there is nobody else to tell
		return 1
	}
	return 0
}

// parse tells on stderr what is wrong with args.
func parse(args []string, stderr io.Writer) (settings, error) {
	s := settings{only: regexp.MustCompile("")}
	flags := flag.NewFlagSet("chaos", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.DurationVar(&s.Length, "for", 10*time.Second, "length of a run")
	flags.IntVar(&s.Seeds, "seeds", 1, "runs of each fault, each with the next `seed`")
	flags.Uint64Var(&s.Seed, "seed", 0, "of the first run of each fault; 0: by the clock")
	flags.IntVar(&s.Parallel, "parallel", 2, "so many runs at a time")
	flags.BoolVar(&s.Smoke, "smoke", false, "a selection of faults")
	flags.BoolVar(&s.list, "list", false, "only tell which faults there are")
	flags.BoolVar(&s.broken, "broken", false, "play with broken variants of the library, and fail unless each is found out; -run is for their names")
	flags.StringVar(&s.out, "out", "results", "`folder` for what was found; empty: none")
	flags.StringVar(&s.keep, "keep", "", "`folder` for the histories of all runs; empty: none")
	flags.Func("run", "only faults that match the `regexp`, in their name and kind of server", func(text string) (err error) {
		s.only, err = regexp.Compile(text)
		return err
	})
	if err := flags.Parse(args); err != nil {
		return s, err
	}
	if s.Seed == 0 {
		s.Seed = uint64(time.Now().Unix())
	}
	var err error
	if flags.NArg() > 0 || s.Seeds < 1 || s.Parallel < 1 || s.Length < time.Second {
		err = errors.New("chaos takes no arguments but flags; seeds and parallel are above 0, a run takes a second at least")
		_, _ = fmt.Fprintln(stderr, err) // there is nobody else to tell
	}
	return s, err
}

// rage runs everything that s asks for.
func rage(s settings, stdout, stderr io.Writer) error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if s.broken {
		return exposeAll(ctx, s, stdout)
	}
	chosen := s.faults()
	if len(chosen) == 0 {
		return errors.New("no fault has such a name; -list tells which there are")
	}
	if s.list {
		for _, f := range chosen {
			_, _ = fmt.Fprintf(stdout, "%s, %s\n", f.name, f.kind) // there is nobody else to tell
		}
		return nil
	}
	binary, err := os.Executable()
	if err != nil {
		return err
	}
	r := report{Settings: s, Machine: newMachine(ctx), Rows: playAll(ctx, s.runs(chosen, binary), s.Parallel, stderr)}
	if ctx.Err() != nil {
		return errors.New("interrupted; nothing was written")
	}
	_, _ = fmt.Fprintln(stdout, r.text()) // there is nobody else to tell
	return errors.Join(r.save(s.out), r.verdict())
}

// faults are those that s asks for.
func (s settings) faults() []fault {
	var chosen []fault
	for _, f := range faults() {
		if s.only.MatchString(f.name+", "+f.kind) && (f.smoke || !s.Smoke) {
			chosen = append(chosen, f)
		}
	}
	return chosen
}

// runs are as many of each fault as s asks for.
func (s settings) runs(chosen []fault, binary string) []run {
	var all []run
	for _, f := range chosen {
		for i := range s.Seeds {
			all = append(all, run{fault: f, seed: s.Seed + uint64(i), length: s.Length, binary: binary, keep: s.keep})
		}
	}
	return all
}
