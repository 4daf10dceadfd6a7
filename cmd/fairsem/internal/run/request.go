// Package run waits in the queue of a name until units are granted, and then runs a command: a PermitJob runs it while it
// holds a permit, and a RateJob lets it replace this process.
package run

import (
	"os"
	"slices"
	"strings"
	"time"

	"github.com/fairsem/fairsem"
	"github.com/fairsem/fairsem/cmd/fairsem/internal/dial"
)

// Request is the request of both jobs, and the command to run after that.
type Request struct {
	Server    *dial.Server
	Prefix    string
	Name      string
	Weight    int64
	Wait      time.Duration // the longest wait in the queue; 0: no limit
	NoWait    bool          // do not wait in the queue at all
	HeadStart time.Duration
	MaxQueue  int64
	Label     string        // "": host:pid
	Grace     time.Duration // as in fairsem.Options

	Tenant             string
	Share, TenantLimit int64 // of the tenant; 0: the default

	Command  []string // with its arguments
	Withhold []string // the environment variables that Command does not get

	JSON         bool // report as JSON lines
	Quiet        bool // report only failures of fairsem itself
	ConflictCode int  // the exit code if the units were not granted
}

func (r *Request) callOptions() fairsem.CallOptions {
	return fairsem.CallOptions{
		HeadStart: r.HeadStart, MaxQueue: r.MaxQueue,
		Tenant: r.Tenant, Share: r.Share, TenantLimit: r.TenantLimit,
	}
}

// TenantVariable is an environment variable that every command gets, if only empty.
const TenantVariable = "FAIRSEM_TENANT"

// tenantVariable names the tenant in the environment of the command.
func (r *Request) tenantVariable() string { return TenantVariable + "=" + r.Tenant }

// environment returns that of this process, without the variables to withhold, and with those given as name=value.
func (r *Request) environment(own ...string) []string {
	inherited := slices.DeleteFunc(os.Environ(), func(entry string) bool {
		name, _, _ := strings.Cut(entry, "=")
		return slices.Contains(r.Withhold, name) || slices.ContainsFunc(own, func(v string) bool { return strings.HasPrefix(v, name+"=") })
	})
	return append(inherited, own...)
}
