package main

import (
	"time"

	"github.com/charmbracelet/colorprofile"
	"github.com/spf13/cobra"

	"github.com/fairsem/fairsem/cmd/fairsem/internal/doctor"
	"github.com/fairsem/fairsem/cmd/fairsem/internal/exit"
	"github.com/fairsem/fairsem/cmd/fairsem/internal/screen"
	"github.com/fairsem/fairsem/cmd/fairsem/internal/text"
)

type doctorOptions struct {
	connection connection
	ttl        time.Duration
	json       bool
	strict     bool
}

func newDoctor() *cobra.Command {
	var o doctorOptions
	cmd := &cobra.Command{
		Use:   "doctor [NAME...]",
		Short: "Check a server and the semaphores on it for problems",
		Long: `Checks the server (version, role, replicas, eviction, memory, persistence), its response
time and clock, the rights that the user lacks, whether a permit can be acquired and a
release notifies a waiter, and whether the stored state of every semaphore, or of
those named, is consistent. Each result is ok, warn, fail or skip, with what to do.

It is safe on a server in use: it acquires a permit of a temporary name of its own,
leaves no key behind, and changes nothing else. Without NAME it scans all keys of the
server in a tenth of its time: a million take about 10 seconds. Each command that the
user may not run leaves an entry in ACL LOG.

Exit code: 0 if nothing failed, 1 if something did (with --strict also for a warning),
125 if no server answers or the report cannot be written, 2 for a wrong command line,
128+n if signal n stopped it.`,
		Example: `  fairsem doctor --redis redis://localhost:6379
  fairsem doctor --redis rediss://fairsem:PASSWORD@redis.example.com:6379 payments-api
  fairsem doctor --json | jq '.checks[] | select(.state == "fail")'`,
		ValidArgsFunction: completeMore,
		RunE:              ownFailure(o.run),
	}
	f := cmd.Flags()
	o.connection.flags(f)
	f.DurationVar(&o.ttl, "ttl", runTTL, "the shortest TTL of your processes, which round trips are compared with")
	f.BoolVar(&o.json, "json", false, "one JSON object, with a list of checks")
	f.BoolVar(&o.strict, "strict", false, "exit code 1 for warnings, too")
	return cmd
}

func (o *doctorOptions) run(cmd *cobra.Command) error {
	if o.ttl <= 0 {
		return exit.Usagef("--ttl %v is not above 0", o.ttl)
	}
	there, err := o.connection.server()
	if err != nil {
		return err
	}
	out := cmd.OutOrStdout()
	page := doctor.Page{Out: screen.Writer(out), Pretty: screen.Profile(out) > colorprofile.NoTTY}
	report := doctor.Report{Server: there.String()}
	err = doctor.Examine(cmd.Context(), there, doctor.Options{Prefix: o.connection.keys(), Names: cmd.Flags().Args(), TTL: o.ttl}, func(f doctor.Finding) {
		report.Add(f)
		if !o.json {
			page.Show(f)
		}
	})
	if err != nil {
		return exit.Invalid(err)
	}
	if o.json {
		if _, err := out.Write(text.JSON(report)); err != nil {
			return err
		}
	} else if err := page.Sum(report); err != nil {
		return err
	}
	if report.Count[doctor.Fail] > 0 || o.strict && report.Count[doctor.Warn] > 0 {
		return &exit.Error{Code: exit.No}
	}
	return nil
}
