// Package fairsemotel makes OpenTelemetry metrics and spans of the calls and permits of a program. The
// instruments are named as in the semantic conventions of connection pools.
//
//	observer, err := fairsemotel.New(fairsemotel.Options{})
//	client, err := fairsem.New(rdb, fairsem.Options{Observer: observer.Observe})
//
// docs/metrics.md has a table of all instruments. They are of this process. The state in Redis, of all processes together, is exported
// for Prometheus by the command "fairsem serve".
//
// # Metrics
//
// The attribute fairsem.name is the name of a semaphore, a lock or a limiter, for at most [Options.MaxNames] names and those that
// [Options.Allow] allows. All others share "other". Bytes of a name that are not UTF-8 are written as \xff. Programs that make
// a name for each user should set Allow. With a MaxNames above its default the SDK needs a higher cardinality limit, or it puts the
// measurements of later names into series without a name.
//
// fairsem.client.subscription.disconnected counts Clients; one that is closed while it is disconnected stays in it.
//
// Measurements have the context of their call, so the SDK makes exemplars of those whose trace is sampled.
//
// # Spans
//
// A call whose context has a span gets up to two of its own, as children of it: "fairsem.wait", from the call until it returns, and
// "fairsem.hold", from the grant until the permit is released or lost. Both have fairsem.name, always the real one, and
// fairsem.weight. If the call returned an error, or Allow of a Limiter refused, or the permit was lost or its release is not confirmed, the
// status is an error and error.type says why. A call without a span in its context gets none; of one whose trace is not sampled nothing is
// exported or kept. Spans are made by the observer, after the fact, with the times of the events.
//
// One Observer can serve several Clients.
package fairsemotel
