package main

import (
	"github.com/spf13/cobra"

	"github.com/fairsem/fairsem/cmd/fairsem/internal/exit"
	"github.com/fairsem/fairsem/cmd/fairsem/internal/run"
)

// requestFlags are the flags of the commands that wait in the queue of a name and then run a command.
type requestFlags struct {
	connection connection
	request    run.Request
	shell      string
	passURL    bool
}

func (w *requestFlags) flags(cmd *cobra.Command) {
	// Only CMD can be after --.
	cmd.SetFlagErrorFunc(wrongFlag(`flags of CMD go after "--"; NAME cannot begin with "-"`))
	f := cmd.Flags()
	w.connection.writerFlags(f)
	r := &w.request
	r.Weight, r.ConflictCode = 1, exit.NotAcquired
	numberFlag(f, &r.Weight, "weight", "w", "units to acquire")
	f.DurationVar(&r.Wait, "wait", 0, "how long to wait in the queue at most; 0: for ever")
	f.BoolVarP(&r.NoWait, "no-wait", "n", false, "do not wait in the queue")
	numberFlag(f, &r.ConflictCode, "conflict-exit-code", "E", "exit code if the units were not granted")
	f.DurationVar(&r.HeadStart, "head-start", 0, "join the queue as if it had come that much earlier")
	numberFlag(f, &r.MaxQueue, "max-queue", "", "fail if `N` calls wait already; 0: no bound")
	f.StringVar(&r.Tenant, "tenant", "", "tenant that the units are charged to: tenants share the limit fairly; at most 128 bytes")
	numberFlag(f, &r.Share, "share", "", "weight of the tenant beside others; 0: 1")
	numberFlag(f, &r.TenantLimit, "tenant-limit", "", "most units of the tenant: held at once, or granted in the window of a rate; 0: no limit of its own")
	f.StringVar(&r.Label, "label", "", "label that operators see, at most 256 bytes (default host:pid)")
	f.StringVarP(&w.shell, "command", "c", "", "run `STRING` with /bin/sh instead of CMD")
	f.BoolVar(&w.passURL, "pass-redis-url", false, "leave $REDIS_URL in the environment of CMD, such as for a CMD that is fairsem")
	f.BoolVarP(&r.Quiet, "quiet", "q", false, "report only failures of fairsem itself; the exit code reports the rest")
	f.BoolVar(&r.JSON, "json", false, "report what happens as JSON lines on standard error")
}

// parseArgs splits the arguments into the words before "--", the first of which is NAME, and the command after it or of
// -c. form is the expected form, for errors.
func (w *requestFlags) parseArgs(cmd *cobra.Command, form string, words ...string) (before []string, err error) {
	f := cmd.Flags()
	before = f.Args()
	dash, shell := f.ArgsLenAtDash(), f.Changed("command")
	if dash >= 0 {
		before, w.request.Command = before[:dash], before[dash:]
	}
	switch {
	case len(before) < len(words):
		return nil, exit.Usagef("%s is missing: %s", words[len(before)], form)
	case shell && len(before)+len(w.request.Command) > len(words):
		return nil, exit.Usagef("both -c and a command are given: give one of them")
	case len(before) > len(words):
		return nil, exit.Usagef("%q is one argument too many: put the command after --, as in %s", before[len(words)], form)
	case shell && w.shell == "":
		return nil, exit.Usagef("-c is empty: give a shell command")
	case shell:
		w.request.Command = []string{"/bin/sh", "-c", w.shell}
	case dash >= 0 && (len(w.request.Command) == 0 || w.request.Command[0] == ""):
		return nil, exit.Usagef("there is no command after --: put one there, or give -c")
	}
	w.request.Name = before[0]
	return before, nil
}

// complete refuses invalid flags and completes the request. source is where the limit comes from, for errors.
func (w *requestFlags) complete(limit int64, source string) (err error) {
	r := &w.request
	switch {
	case r.Weight < 1 || r.Weight > limit:
		return exit.Usagef("--weight %d is not between 1 and %s", r.Weight, source)
	case r.Wait < 0 || r.HeadStart < 0 || r.MaxQueue < 0:
		return exit.Usagef("--wait, --head-start and --max-queue cannot be negative")
	case r.NoWait && (r.Wait > 0 || r.MaxQueue > 0 || r.HeadStart > 0):
		return exit.Usagef("--no-wait cannot be combined with --wait, --max-queue or --head-start")
	case r.Quiet && r.JSON:
		return exit.Usagef("--quiet and --json contradict each other: give one of them")
	case r.ConflictCode < 0 || r.ConflictCode > 255:
		return exit.Usagef("--conflict-exit-code %d is not between 0 and 255", r.ConflictCode)
	}
	r.Prefix, r.Withhold = w.connection.keys(), []string{tokenVariable}
	if !w.passURL {
		r.Withhold = append(r.Withhold, urlVariable)
	}
	if r.Grace, err = w.connection.gracePeriod(); err != nil {
		return err
	}
	r.Server, err = w.connection.server()
	return err
}
