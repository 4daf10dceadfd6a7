package main

import (
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// waiting is what the commands have in common that wait in the queue of a name and then run a command.
type waiting struct {
	connection
	weight    int64
	wait      time.Duration
	noWait    bool
	conflict  int
	headStart time.Duration
	maxQueue  int64
	label     string
	shell     string
	json      bool
	quiet     bool
	passURL   bool

	name    string
	command []string
}

func (w *waiting) flags(f *pflag.FlagSet) {
	w.connection.flags(f)
	f.Int64VarP(&w.weight, "weight", "w", 1, "units to ask for")
	f.DurationVar(&w.wait, "wait", 0, "how long to wait in the queue at most; 0: for ever")
	f.BoolVarP(&w.noWait, "no-wait", "n", false, "do not wait in the queue")
	f.IntVarP(&w.conflict, "conflict-exit-code", "E", exitNotAcquired, "exit code if the units were not granted")
	f.DurationVar(&w.headStart, "head-start", 0, "join the queue as if it had come that much earlier")
	f.Int64Var(&w.maxQueue, "max-queue", 0, "do not become waiter number `N`+1; 0: any")
	f.StringVar(&w.label, "label", "", "label that operators see, at most 256 bytes (default host:pid)")
	f.StringVarP(&w.shell, "command", "c", "", "run `STRING` with /bin/sh instead of CMD")
	f.BoolVar(&w.passURL, "pass-redis-url", false, "leave $REDIS_URL in the environment of CMD, such as for a CMD that is fairsem")
	f.BoolVarP(&w.quiet, "quiet", "q", false, "report only failures of fairsem itself; the exit code reports the rest")
	f.BoolVar(&w.json, "json", false, "report what happens as JSON lines on standard error")
}

// parseArgs splits the arguments into the words before "--", the first of which is NAME, and the command after it or of
// -c. form is the expected form, for errors.
func (w *waiting) parseArgs(cmd *cobra.Command, form string, words ...string) (before []string, err error) {
	f := cmd.Flags()
	before = f.Args()
	dash, shell := f.ArgsLenAtDash(), f.Changed("command")
	if dash >= 0 {
		before, w.command = before[:dash], before[dash:]
	}
	switch {
	case len(before) < len(words):
		return nil, usage("%s is missing: %s", words[len(before)], form)
	case shell && len(before)+len(w.command) > len(words):
		return nil, usage("both -c and a command are given: give one of them")
	case len(before) > len(words):
		return nil, usage("%q is one argument too many: put the command after --, as in %s", before[len(words)], form)
	case shell && w.shell == "":
		return nil, usage("-c is empty: give a shell command")
	case shell:
		w.command = []string{"/bin/sh", "-c", w.shell}
	case dash >= 0 && (len(w.command) == 0 || w.command[0] == ""):
		return nil, usage("there is no command after --: put one there, or give -c")
	}
	w.name = before[0]
	return before, nil
}

// check refuses what can never work where so many units are the limit, which is from a source.
func (w *waiting) check(limit int64, source string) error {
	switch {
	case w.weight < 1 || w.weight > limit:
		return usage("--weight %d is not between 1 and %s", w.weight, source)
	case w.wait < 0 || w.headStart < 0 || w.maxQueue < 0:
		return usage("--wait, --head-start and --max-queue cannot be negative")
	case w.noWait && (w.wait > 0 || w.maxQueue > 0 || w.headStart > 0):
		return usage("--no-wait cannot be combined with --wait, --max-queue or --head-start")
	case w.quiet && w.json:
		return usage("--quiet and --json contradict each other: give one of them")
	case w.conflict < 0 || w.conflict > 255:
		return usage("--conflict-exit-code %d is not between 0 and 255", w.conflict)
	}
	_, err := w.server()
	return err
}

// environment is that of this process without the secrets, and with own in place of variables of these names.
func (w *waiting) environment(own ...[2]string) (env []string) {
	for _, e := range os.Environ() {
		if !isOneOf(own, e) && !w.secret(e) {
			env = append(env, e)
		}
	}
	for _, v := range own {
		env = append(env, v[0]+"="+v[1])
	}
	return env
}

// secret says whether a variable has a password that CMD has no need of.
func (w *waiting) secret(entry string) bool {
	return strings.HasPrefix(entry, tokenVariable+"=") || !w.passURL && strings.HasPrefix(entry, urlVariable+"=")
}

func isOneOf(vars [][2]string, entry string) bool {
	for _, v := range vars {
		if strings.HasPrefix(entry, v[0]+"=") {
			return true
		}
	}
	return false
}
