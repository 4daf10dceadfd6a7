package fairsemgrpc_test

import (
	"context"
	"errors"
	"io"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	pb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/fairsem/fairsem"
	"github.com/fairsem/fairsem/fairsemgrpc"
	"github.com/fairsem/fairsem/internal/worldtest"
)

func TestUnaryCallOfAClientHoldsItsUnitsUntilItReturns(t *testing.T) {
	w := newWorld(t)
	s := w.Semaphore(3)
	used := make(chan int64, 1)
	c := limitedClient(t, &service{unary: func(context.Context) error {
		used <- w.Status(s).Used
		return nil
	}}, s, fairsemgrpc.Options{Weight: func(context.Context, string) int64 { return 2 }})
	require.NoError(t, kinds["unary"](t.Context(), c))
	assert.Equal(t, int64(2), <-used)
	w.EventuallyUsed(s, 0)
}

func TestStreamOfAClientHoldsItsUnitsUntilItsEnd(t *testing.T) {
	w := newWorld(t)
	s := w.Semaphore(1)
	c := limitedClient(t, new(service), s, fairsemgrpc.Options{})
	held := func(why string) {
		t.Helper()
		assert.Equal(t, int64(1), w.Status(s).Used, why)
	}

	duplex, err := c.FullDuplexCall(t.Context())
	require.NoError(t, err)
	require.NoError(t, duplex.Send(new(pb.StreamingOutputCallRequest)))
	_, err = duplex.Recv()
	require.NoError(t, err)
	require.NoError(t, duplex.CloseSend())
	held("the last message was sent")
	_, err = duplex.Recv()
	require.Equal(t, io.EOF, err)
	w.EventuallyUsed(s, 0)
	_, err = duplex.Recv()
	assert.Error(t, err)
	assert.Equal(t, int64(0), w.Status(s).Used, "once is enough")

	download, err := c.StreamingOutputCall(t.Context(), new(pb.StreamingOutputCallRequest))
	require.NoError(t, err)
	for range 2 {
		_, err = download.Recv()
		require.NoError(t, err)
		held("io.EOF is not read")
	}
	_, err = download.Recv()
	require.Equal(t, io.EOF, err)
	w.EventuallyUsed(s, 0)

	upload, err := c.StreamingInputCall(t.Context())
	require.NoError(t, err)
	require.NoError(t, upload.Send(new(pb.StreamingInputCallRequest)))
	held("a message was sent")
	_, err = upload.CloseAndRecv() // no io.EOF follows
	require.NoError(t, err)
	w.EventuallyUsed(s, 0)
}

func TestStreamThatIsNotReadReleasesWhenItsContextEndsOrItsConnectionIsClosed(t *testing.T) {
	w := newWorld(t)
	s := w.Semaphore(1)
	addr := serve(t, new(service))
	for _, leave := range []func(context.CancelFunc, *grpc.ClientConn){
		func(cancel context.CancelFunc, _ *grpc.ClientConn) { cancel() },
		func(_ context.CancelFunc, conn *grpc.ClientConn) { _ = conn.Close() },
	} {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		conn := dial(t, addr, inClient(t, s, fairsemgrpc.Options{})...)
		_, err := pb.NewTestServiceClient(conn).FullDuplexCall(ctx)
		require.NoError(t, err)
		assert.Equal(t, int64(1), w.Status(s).Used)
		leave(cancel, conn)
		w.EventuallyUsed(s, 0)
	}
}

// Without the options of the call gRPC does not say when the stream ends, and without the context it does not end with it.
func TestStreamReleasesWithItsContextWhateverInnerInterceptorsMakeOfIt(t *testing.T) {
	for what, inner := range map[string]grpc.StreamClientInterceptor{
		"a stream of its own": func(context.Context, *grpc.StreamDesc, *grpc.ClientConn, string, grpc.Streamer, ...grpc.CallOption) (grpc.ClientStream, error) {
			return new(stub), nil
		},
		"no options": func(ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn, method string, next grpc.Streamer, _ ...grpc.CallOption) (grpc.ClientStream, error) {
			return next(ctx, desc, cc, method)
		},
		"another context": func(ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn, method string, next grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
			return next(context.WithoutCancel(ctx), desc, cc, method, opts...)
		},
	} {
		t.Run(what, func(t *testing.T) {
			w := newWorld(t)
			s := w.Semaphore(1)
			limited, err := fairsemgrpc.StreamClientInterceptor(s, fairsemgrpc.Options{})
			require.NoError(t, err)
			conn := dial(t, serve(t, new(service)), grpc.WithChainStreamInterceptor(limited, inner))
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			_, err = conn.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true, ClientStreams: true}, pb.TestService_FullDuplexCall_FullMethodName)
			require.NoError(t, err)
			assert.Equal(t, int64(1), w.Status(s).Used)
			cancel()
			w.EventuallyUsed(s, 0)
		})
	}
}

func TestStreamThatFailsReleasesAndItsErrorPassesThrough(t *testing.T) {
	w := newWorld(t)
	s := w.Semaphore(1)
	refusal := status.Error(codes.ResourceExhausted, "of the server")
	c := limitedClient(t, &service{
		unary:  func(context.Context) error { return refusal },
		output: func(grpc.ServerStream) error { return refusal },
		input:  func(grpc.ServerStream) error { return refusal },
		duplex: func(pb.TestService_FullDuplexCallServer) error { return refusal },
	}, s, fairsemgrpc.Options{})
	for kind, call := range kinds {
		err := call(t.Context(), c)
		assert.Equal(t, "of the server", status.Convert(err).Message(), kind)
		assert.NotErrorIs(t, err, fairsem.ErrNotAcquired)
		w.EventuallyUsed(s, 0)
	}
}

// stub is a stream whose calls fail as told.
type stub struct {
	grpc.ClientStream
	send, header error
}

func (s *stub) SendMsg(any) error            { return s.send }
func (s *stub) Header() (metadata.MD, error) { return nil, s.header }
func (s *stub) RecvMsg(any) error            { return nil }

func TestStreamThatIsNotOfGRPCEndsWithItsContextAndWithAnErrorOfSendOrHeader(t *testing.T) {
	w := newWorld(t)
	s := w.Semaphore(1)
	limited, err := fairsemgrpc.StreamClientInterceptor(s, fairsemgrpc.Options{})
	require.NoError(t, err)
	open := func(ctx context.Context, inner *stub) grpc.ClientStream {
		stream, err := limited(ctx, &grpc.StreamDesc{ServerStreams: true}, nil, "/x", func(context.Context, *grpc.StreamDesc, *grpc.ClientConn, string, ...grpc.CallOption) (grpc.ClientStream, error) {
			return inner, nil
		})
		require.NoError(t, err)
		return stream
	}
	broken := errors.New("broken")
	stream := open(t.Context(), &stub{send: broken})
	_, err = stream.Header()
	require.NoError(t, err)
	assert.Equal(t, int64(1), w.Status(s).Used)
	assert.Equal(t, broken, stream.SendMsg(nil))
	w.EventuallyUsed(s, 0)

	ctx, cancel := context.WithCancel(t.Context())
	open(ctx, new(stub))
	assert.Equal(t, int64(1), w.Status(s).Used)
	cancel()
	w.EventuallyUsed(s, 0)

	stream = open(t.Context(), &stub{send: io.EOF, header: broken})
	require.Equal(t, io.EOF, stream.SendMsg(nil))
	assert.Equal(t, int64(1), w.Status(s).Used, "RecvMsg has the error")
	_, err = stream.Header()
	assert.Equal(t, broken, err)
	w.EventuallyUsed(s, 0)
}

func TestStreamThatIsNotOpenedReleases(t *testing.T) {
	w := newWorld(t)
	s := w.Semaphore(1)
	limited, err := fairsemgrpc.StreamClientInterceptor(s, fairsemgrpc.Options{})
	require.NoError(t, err)
	broken := errors.New("broken")
	for _, fails := range []func() (grpc.ClientStream, error){
		func() (grpc.ClientStream, error) { return nil, broken },
		func() (grpc.ClientStream, error) { return nil, nil },
		func() (grpc.ClientStream, error) { panic(broken) },
	} {
		func() {
			defer func() {
				if p := recover(); p != nil {
					err = p.(error)
				}
			}()
			_, err = limited(t.Context(), new(grpc.StreamDesc), nil, "/x", func(context.Context, *grpc.StreamDesc, *grpc.ClientConn, string, ...grpc.CallOption) (grpc.ClientStream, error) {
				return fails()
			})
		}()
		if err != nil {
			assert.Equal(t, broken, err)
		}
		w.EventuallyUsed(s, 0)
	}
	nowhere := pb.NewTestServiceClient(dial(t, "127.0.0.1:1", grpc.WithChainStreamInterceptor(limited)))
	assert.Equal(t, codes.Unavailable, status.Code(kinds["duplex"](t.Context(), nowhere)))
	w.EventuallyUsed(s, 0)
}

// An interceptor that retries opens one stream after the other, and gRPC calls the first one finished.
func TestRetryOfAnInnerInterceptorKeepsTheUnits(t *testing.T) {
	w := newWorld(t)
	s := w.Semaphore(1)
	retrying := func(ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn, method string, streamer grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
		first, err := streamer(ctx, desc, cc, "/grpc.testing.TestService/Unknown", opts...)
		if err == nil {
			assert.Equal(t, codes.Unimplemented, status.Code(first.RecvMsg(new(pb.Empty))))
		}
		return streamer(ctx, desc, cc, method, opts...)
	}
	conn := dial(t, serve(t, new(service)), append(inClient(t, s, fairsemgrpc.Options{}), grpc.WithChainStreamInterceptor(retrying))...)
	stream, err := pb.NewTestServiceClient(conn).FullDuplexCall(t.Context())
	require.NoError(t, err)
	require.NoError(t, stream.Send(new(pb.StreamingOutputCallRequest)))
	_, err = stream.Recv()
	require.NoError(t, err, "the permit was released, and the stream with it")
	assert.Equal(t, int64(1), w.Status(s).Used)
	require.NoError(t, stream.CloseSend())
	_, err = stream.Recv()
	require.Equal(t, io.EOF, err)
	w.EventuallyUsed(s, 0)
}

func TestCallsThatAllProcessesSendStayWithinTheLimit(t *testing.T) {
	w := newWorld(t)
	var counted gauge
	stream := func(grpc.ServerStream) error { return counted.handle(t.Context()) }
	peer := serve(t, &service{
		unary: counted.handle, output: stream,
		input: func(s grpc.ServerStream) error {
			return errors.Join(stream(s), s.SendMsg(new(pb.StreamingInputCallResponse)))
		},
		duplex: func(s pb.TestService_FullDuplexCallServer) error { return stream(s) },
	})
	var running []func() error
	for range 3 {
		running = append(running, worldtest.Start(t, order{Redis: w.Redis, Name: w.LimitName, Peer: peer, Limit: 3, Rounds: 10}).Wait)
	}
	for _, wait := range running {
		require.NoError(t, wait())
	}
	assert.Equal(t, int64(3*4*10*len(kinds)), counted.All.Load())
	assert.LessOrEqual(t, counted.Most.Load(), int64(3))
}

func TestCallOfAClientThatIsRefusedIsNotSentAndSaysWhy(t *testing.T) {
	w := newWorld(t)
	client := w.Client()
	s, err := client.Semaphore(w.LimitName, 1)
	require.NoError(t, err)
	busy, release := w.full(s)
	sent := &service{unary: func(context.Context) error {
		t.Error("sent")
		return nil
	}}
	err = kinds["unary"](t.Context(), limitedClient(t, sent, busy, fairsemgrpc.Options{}))
	assert.Equal(t, time.Second, refused(t, codes.ResourceExhausted, err))
	assert.ErrorIs(t, err, fairsem.ErrQueueFull)
	assert.ErrorContains(t, err, w.LimitName)
	waiting := limitedClient(t, sent, s, fairsemgrpc.Options{MaxWait: 50 * time.Millisecond})
	w.Eventually(func() bool { // on a busy machine Redis may answer too late
		err = kinds["unary"](t.Context(), waiting)
		return status.Code(err) != codes.Unavailable
	}, "Redis does not answer")
	assert.ErrorIs(t, err, fairsem.ErrNotAcquired)
	assert.NotErrorIs(t, err, context.Canceled, "nobody has canceled the call")

	limiter, err := w.Client().Limiter(w.LimitName+"rate", 1, time.Hour)
	require.NoError(t, err)
	require.NoError(t, limiter.Wait(t.Context(), 1))
	var limited *fairsem.WaitError
	err = kinds["unary"](t.Context(), limitedClient(t, sent, limiter, fairsemgrpc.Options{MaxWait: time.Minute}))
	assert.Greater(t, refused(t, codes.ResourceExhausted, err), 30*time.Minute)
	assert.ErrorAs(t, err, &limited)

	release()
	require.NoError(t, client.Close())
	err = kinds["unary"](t.Context(), limitedClient(t, sent, s, fairsemgrpc.Options{}))
	assert.Equal(t, time.Second, refused(t, codes.Unavailable, err))
	assert.ErrorIs(t, err, fairsem.ErrClosed)
}

// In an outage, when it matters, it would have no effect for calls whose deadline comes before a TTL.
func TestClientThatAdmitsNeedsAMaxWait(t *testing.T) {
	w := newWorld(t)
	s, o := w.Semaphore(1), fairsemgrpc.Options{OnUnavailable: fairsemgrpc.Admit}
	_, unary := fairsemgrpc.UnaryClientInterceptor(s, o)
	_, stream := fairsemgrpc.StreamClientInterceptor(s, o)
	for _, err := range []error{unary, stream} {
		require.ErrorIs(t, err, fairsem.ErrInvalid)
		assert.ErrorContains(t, err, "Admit needs a MaxWait")
	}
	onServer(t, s, o) // has one
}

func TestCallOfAClientWaitsAsLongAsItsContextAllows(t *testing.T) {
	w := newWorld(t)
	s := w.Semaphore(1)
	release := w.Occupy(s, 1)
	c := limitedClient(t, new(service), s, fairsemgrpc.Options{})
	for _, kind := range []string{"unary", "duplex"} {
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		err := kinds[kind](ctx, c)
		cancel()
		assert.Zero(t, refused(t, codes.DeadlineExceeded, err))
		assert.ErrorIs(t, err, context.DeadlineExceeded)
	}
	done := make(chan error)
	go func() { done <- kinds["unary"](t.Context(), c) }() // ends when the unit is released
	w.Eventually(func() bool { return w.Status(s).Waiting == 1 }, "the call does not wait")
	release()
	assert.NoError(t, <-done)
}

func TestLostPermitAbortsTheCallOfAClient(t *testing.T) {
	w := newWorld(t)
	s := w.Semaphore(1)
	begun := make(chan struct{}, 1)
	c := limitedClient(t, &service{
		unary: func(ctx context.Context) error {
			begun <- struct{}{}
			<-ctx.Done()
			return ctx.Err()
		},
		duplex: func(stream pb.TestService_FullDuplexCallServer) error {
			begun <- struct{}{}
			return echo(stream)
		},
	}, s, fairsemgrpc.Options{})
	failed := make(chan error)
	go func() { failed <- kinds["unary"](t.Context(), c) }() // ends when the permit is lost
	<-begun
	w.Evict(s)
	err := <-failed
	assert.ErrorIs(t, err, fairsem.ErrLost)
	assert.Equal(t, codes.Aborted, status.Code(err))

	stream, err := c.FullDuplexCall(t.Context())
	require.NoError(t, err)
	<-begun
	w.Evict(s)
	_, err = stream.Recv()
	assert.ErrorIs(t, err, fairsem.ErrLost)
	assert.Equal(t, codes.Aborted, status.Code(err))
}

// gRPC says once that a stream has ended, and Header returns no error then. The context and the connection may end long after that.
func TestStreamThatHasEndedUnreadReleasesWhenItsContextEndsOrItsConnectionIsClosed(t *testing.T) {
	w := newWorld(t)
	s := w.Semaphore(1)
	addr := serve(t, &service{duplex: func(pb.TestService_FullDuplexCallServer) error {
		return status.Error(codes.PermissionDenied, "no")
	}})
	for _, end := range []func(context.CancelFunc, *grpc.ClientConn){
		func(cancel context.CancelFunc, _ *grpc.ClientConn) { cancel() },
		func(_ context.CancelFunc, conn *grpc.ClientConn) { _ = conn.Close() },
	} {
		conn := dial(t, addr, inClient(t, s, fairsemgrpc.Options{})...)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		stream, err := pb.NewTestServiceClient(conn).FullDuplexCall(ctx)
		require.NoError(t, err)
		_, _ = stream.Header()
		end(cancel, conn)
		w.EventuallyUsed(s, 0)
	}
}
