// Package fairsemhttp limits HTTP requests in all processes together: the requests that a server handles, and those that a client
// sends. The limit is a [fairsem.Semaphore] or a [fairsem.Mutex] (so many at once), or a [fairsem.Limiter] (so many in a window).
//
//	calls, err := client.Semaphore("llm-api", 20) // at most 20 at once, from all processes
//	api := &http.Client{Transport: &fairsemhttp.Transport{Limit: calls}}
//
//	reports, err := client.Semaphore("reports", 4)
//	handler, err := fairsemhttp.Handler(next, reports, fairsemhttp.Options{MaxWait: 2 * time.Second})
//
// [Options.LimitOf] chooses a limit for each request, such as one for each tenant, and [Options.Weight] its weight.
//
// # What a request holds, and for how long
//
// With a Semaphore or a Mutex a request holds its units while it is handled: in a [Handler] until the next handler returns or
// panics; in a [Transport] until the body of the response was read to its end or closed. A connection that was taken over, by
// [http.Hijacker] or by the status 101, holds them until it is closed. So a response whose body is never closed holds its units
// until the process ends. The release is sent then; nothing waits for Redis to confirm it. A Limiter counts a request, and nothing
// is released.
//
// If the permit is lost, the context of the request ends, and [context.Cause] of it is [fairsem.ErrLost]; a connection that was taken
// over is closed. If the [fairsem.Client] is closed, the same happens with [fairsem.ErrClosed].
//
// # Who is refused
//
// A request waits in the queue of its limit for at most [Options.MaxWait]. If its client disconnects or its context ends, it leaves the
// queue at once. net/http notices that an HTTP/1 client has disconnected once the body of the request has been read; a
// request without a body has none to read.
//
// A [Handler] then answers with Retry-After and a body of type application/problem+json:
//
//	503  the units are in use; Retry-After follows from the pace of the queue, see [fairsem.Status.ExpectedWait]; of a tenant it is 1 s
//	429  the rate is exceeded; Retry-After is that of the [fairsem.Limiter]
//	503  Redis does not answer, and OnUnavailable is Refuse
//	500  a mistake of the program, such as an invalid name: see [Options.OnRefused] for the error
//
// A weight that exceeds the limit is refused without Retry-After. The response contains no part of the request and no name of a
// limit. With a Limiter, the responses to requests that it let through, and those with status 429, have the field
// RateLimit-Policy of draft-ietf-httpapi-ratelimit-headers-11: the limit that this process declares, which is not the one in
// force where another process or an operator has set another. They also have the field RateLimit, with the remaining units of the
// limit in force, except a 429 whose turn is not known or never comes; in a pause no unit remains.
//
// A [Transport] returns the error of fairsem and has sent nothing. It passes on the server's answers, its own 429 and 503 included.
//
// # When Redis does not answer
//
// A request waits for at most MaxWait and is then refused: nothing is let through without a permit. In a [Transport] without a MaxWait
// it is refused when its context ends, or when Redis has not answered for a TTL. With [Admit], for which a Transport must have a MaxWait,
// the request is let through then, and [Options.OnAdmitted] is called, so that metrics can count it. The requests that are being handled go
// on until their permits are lost, which is nine tenths of a TTL after the last renewal.
package fairsemhttp
