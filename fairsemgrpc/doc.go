// Package fairsemgrpc limits gRPC calls in all processes together: the calls that a server handles, and the calls that a client
// sends. The limit is a [fairsem.Semaphore] or a [fairsem.Mutex] (so many at once), or a [fairsem.Limiter] (so many in a window).
//
//	reports, err := client.Semaphore("reports", 4) // at most 4 at once, on all servers
//	unary, err := fairsemgrpc.UnaryServerInterceptor(reports, fairsemgrpc.Options{MaxWait: 2 * time.Second})
//	stream, err := fairsemgrpc.StreamServerInterceptor(reports, fairsemgrpc.Options{MaxWait: 2 * time.Second})
//	server := grpc.NewServer(grpc.ChainUnaryInterceptor(unary), grpc.ChainStreamInterceptor(stream))
//
//	calls, err := client.Semaphore("llm-api", 20) // at most 20 at once, from all processes
//	limited, err := fairsemgrpc.UnaryClientInterceptor(calls, fairsemgrpc.Options{})
//	conn, err := grpc.NewClient(target, grpc.WithTransportCredentials(tls), grpc.WithChainUnaryInterceptor(limited))
//
// [Options.LimitOf] chooses a limit for each call, by its method, its metadata and other values of its context, and
// [Options.Weight] its weight. An interceptor limits all calls, health checks included; see the example of
// [UnaryServerInterceptor] for a service without a limit.
//
// # What a call holds, and for how long
//
// With a Semaphore or a Mutex a call holds its units until it ends. On a server that is when the handler returns or panics. In
// a client a unary call ends when it returns, and a stream
//
//   - when RecvMsg returns an error, io.EOF included, or the only response of a method that has one, as CloseAndRecv does;
//   - when SendMsg returns an error that is not io.EOF, or Header returns an error;
//   - when the context that the caller has passed ends, or the ClientConn is closed. The context of the stream, which also ends with a
//     timeout of an interceptor or of a service config, is another one.
//
// So a client that stops reading a stream must cancel its context, as gRPC demands anyway; otherwise the units stay in use until the
// process ends. The release is sent when the call ends; nothing waits for Redis to confirm it. A Limiter counts a call, and
// nothing is released.
//
// If the permit is lost, the context of the call ends, and [context.Cause] of it is [fairsem.ErrLost]; if the [fairsem.Client] is closed,
// [fairsem.ErrClosed]. If the call then fails with an error that is [context.Canceled] or the cause, or that has the code Canceled, it
// fails with Aborted; an error with another code, any other error and any result are passed on. On a server RecvMsg returns Aborted, too,
// even while it waits, and SendMsg when it is called next. A handler that is blocked in SendMsg, because its client does not read, goes on
// until the client does. The RecvMsg of an interceptor that comes before this one may then be under way when its handler has returned,
// until the stream has ended.
//
// # Who is refused
//
// A call waits in the queue of its limit for at most [Options.MaxWait]. If its context ends, because its deadline has passed or its client
// has cancelled it or disconnected, it leaves the queue at once. A call that is not let through fails with one of these codes, and a
// google.rpc.RetryInfo says when to try again:
//
//	ResourceExhausted  the units are in use; the delay follows from the pace of the queue, see [fairsem.Status.ExpectedWait]; of a tenant it is 1 s
//	ResourceExhausted  the rate is exceeded; the delay is that of the [fairsem.Limiter]
//	Unavailable        Redis does not answer, and OnUnavailable is Refuse; or the Client is closed
//	DeadlineExceeded, Canceled  the context of the call ended; without RetryInfo
//	Internal           a mistake of the program, such as an invalid name: see [Options.OnRefused] for the error; without RetryInfo
//
// A weight that exceeds the limit is refused with ResourceExhausted and without RetryInfo. The status that a server sends has no part of
// the call and no name of a limit. The error that a client interceptor returns has the same status, and wraps the error of fairsem, for
// [errors.Is]; nothing was sent then. A client interceptor passes on the server's answers, its own ResourceExhausted included.
//
// # When Redis does not answer
//
// A call waits for at most MaxWait and is then refused: nothing is let through without a permit. In a client without a MaxWait it is
// refused when its context ends, or when Redis has not answered for a TTL. With [Admit], for which a client must have a MaxWait, the
// call is let through then, and [Options.OnAdmitted] is called, so that metrics can count it. The calls that are under way go on until
// their permits are lost, which is nine tenths of a TTL after the last renewal.
package fairsemgrpc
