// Package fairsemprom makes Prometheus metrics of the calls and permits of a program: how long they wait and hold,
// the units held now, refusals, losses, and how the program learned of its grants.
//
//	observer, err := fairsemprom.New(fairsemprom.Options{})
//	err = prometheus.Register(observer)
//	client, err := fairsem.New(rdb, fairsem.Options{Observer: observer.Observe})
//
// docs/metrics.md has a table of all metrics. They are of this process, and their names begin with fairsem_client_. The state in
// Redis, of all processes together, is exported by the command "fairsem serve": fairsem_permits_limit, fairsem_oldest_waiter_age_seconds
// and others. deploy/ has a Grafana dashboard and alert rules for both.
//
// # Labels
//
// The label name is the name of a semaphore, a lock or a limiter, for at most [Options.MaxNames] names and those that [Options.Allow]
// allows. All others share the series with name="other", together with a name that is "other". Bytes of a name that are not UTF-8
// are written as \xff; in such a name, and in one that has such an escape as text, a backslash is doubled. A name has up to 51 series, and
// they stay until the program ends: programs that make a name for each user should set Allow.
//
// The counters of grants and losses begin with 0 at the first permit of a name, so that the first loss is an increase where Prometheus
// has scraped in between; FairsemPermitsLost of deploy/ also finds it where it has not. That of the calls that failed because Redis does not
// answer begins with the first event of the name.
//
// # What the gauges count
//
// fairsem_client_permits_in_use counts the units of a permit from its grant to its release or loss, as the program sees them. The
// units of a Weighted count until the last unit of its Acquire is released. fairsem_client_disconnected counts Clients; a Client
// that is closed while disconnected remains counted.
//
// # Cost
//
// An event takes less than a microsecond and allocates nothing, but for the first of a name. It delays no call: a [fairsem.Client] calls
// its observer from a goroutine of its own. With [Options.TraceID], an event whose call has a trace allocates for its exemplar.
// Exemplars need promhttp.HandlerOpts.EnableOpenMetrics, and Prometheus with --enable-feature=exemplar-storage.
//
// One Observer can serve several Clients. To distinguish them, give each its own, registered with
// [prometheus.WrapRegistererWith].
package fairsemprom
