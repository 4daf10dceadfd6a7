package fairsemgrpc_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/encoding/proto"
	pb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/fairsem/fairsem"
	"github.com/fairsem/fairsem/fairsemgrpc"
	"github.com/fairsem/fairsem/internal/redistest"
	"github.com/fairsem/fairsem/internal/worldtest"
)

func TestCallHoldsItsUnitsUntilItsHandlerReturns(t *testing.T) {
	w := newWorld(t)
	s := w.Semaphore(3)
	used := make(chan int64, 1)
	note := func() error {
		used <- w.Status(s).Used
		return nil
	}
	stream := func(grpc.ServerStream) error { return note() }
	c := limitedServer(t, &service{
		unary:  func(context.Context) error { return note() },
		output: stream,
		input: func(s grpc.ServerStream) error {
			return errors.Join(note(), s.SendMsg(new(pb.StreamingInputCallResponse)))
		},
		duplex: func(s pb.TestService_FullDuplexCallServer) error { return stream(s) },
	}, s, fairsemgrpc.Options{Weight: func(context.Context, string) int64 { return 2 }, MaxWait: time.Minute})
	for kind, call := range kinds {
		require.NoError(t, call(t.Context(), c), kind)
		assert.Equal(t, int64(2), <-used, kind)
		w.EventuallyUsed(s, 0)
	}
}

func TestCallsThatServersOfAllProcessesHandleStayWithinTheLimit(t *testing.T) {
	w := newWorld(t)
	var counted gauge
	peer := serve(t, &service{unary: counted.handle})
	var servers []pb.TestServiceClient
	for range 3 {
		addr, err := worldtest.Start(t, order{Redis: w.Redis, Name: w.LimitName, Peer: peer, Limit: 3}).Out.ReadString('\n')
		require.NoError(t, err)
		servers = append(servers, pb.NewTestServiceClient(dial(t, strings.TrimSpace(addr))))
	}
	var calls sync.WaitGroup
	for n := range 60 {
		calls.Go(func() { assert.NoError(t, kinds["unary"](t.Context(), servers[n%3])) })
	}
	calls.Wait()
	assert.Equal(t, int64(60), counted.All.Load())
	assert.LessOrEqual(t, counted.Most.Load(), int64(3))
}

func TestStreamOfAServerWorksAsWithoutALimit(t *testing.T) {
	w := newWorld(t)
	c := limitedServer(t, new(service), w.Semaphore(4), fairsemgrpc.Options{MaxWait: time.Minute})
	upload, err := c.StreamingInputCall(t.Context())
	require.NoError(t, err)
	for range 5 {
		require.NoError(t, upload.Send(new(pb.StreamingInputCallRequest)))
	}
	sum, err := upload.CloseAndRecv()
	require.NoError(t, err)
	assert.Equal(t, int32(5), sum.GetAggregatedPayloadSize())

	duplex, err := c.FullDuplexCall(t.Context())
	require.NoError(t, err)
	for n := range 20 {
		text := []byte(fmt.Sprint(n))
		require.NoError(t, duplex.Send(&pb.StreamingOutputCallRequest{Payload: &pb.Payload{Body: text}}))
		m, err := duplex.Recv()
		require.NoError(t, err)
		assert.Equal(t, text, m.GetPayload().GetBody())
	}
	require.NoError(t, duplex.CloseSend())
	_, err = duplex.Recv()
	assert.Equal(t, io.EOF, err)
}

func TestCallThatIsRefusedGetsResourceExhaustedAndRetryInfo(t *testing.T) {
	w := newWorld(t)
	s := w.Semaphore(1)
	defer w.Occupy(s, 1)()
	for _, wait := range []time.Duration{100 * time.Millisecond, fairsemgrpc.NoWait} {
		errs := make(chan error, 1)
		c := limitedServer(t, new(service), s, fairsemgrpc.Options{
			MaxWait: wait, OnRefused: func(_ context.Context, method string, err error) { errs <- fmt.Errorf("%s: %w", method, err) },
		})
		for kind, call := range kinds {
			var err, reason error
			w.Eventually(func() bool { // on a busy machine Redis may answer too late
				err = call(t.Context(), c)
				reason = <-errs
				return status.Code(err) != codes.Unavailable
			}, "Redis does not answer")
			assert.Equal(t, time.Second, refused(t, codes.ResourceExhausted, err), kind)
			assert.Equal(t, "all units of a limit are in use", status.Convert(err).Message())
			assert.ErrorIs(t, reason, fairsem.ErrNotAcquired, kind)
			assert.ErrorContains(t, reason, "/grpc.testing.TestService/")
		}
	}
}

// A release that is sent after the next call of the same client has it refused.
func TestCallsOneAfterTheOtherFindTheirUnitFree(t *testing.T) {
	w := newWorld(t)
	s := w.Semaphore(1)
	o := fairsemgrpc.Options{MaxWait: fairsemgrpc.NoWait}
	for side, c := range map[string]pb.TestServiceClient{
		"server": limitedServer(t, new(service), s, o),
		"client": limitedClient(t, new(service), s, o),
	} {
		for _, kind := range []string{"unary", "output"} {
			w.EventuallyInARow(func() bool { return kinds[kind](t.Context(), c) == nil }, "a "+side+" refuses some "+kind+" calls")
		}
	}
}

// gRPC sends the text of an error that wraps one with a status.
func TestRefusalThatAnotherInterceptorWrapsHasNoNameOfALimit(t *testing.T) {
	w := newWorld(t)
	s := w.Semaphore(1)
	busy, release := w.full(s)
	wrapped := func(err error) error {
		if err != nil {
			assert.True(t, errors.Is(err, fairsem.ErrQueueFull) || errors.Is(err, fairsem.ErrLost), "%v", err)
			err = fmt.Errorf("seen: %w", err)
		}
		return err
	}
	outer := []grpc.ServerOption{
		grpc.ChainUnaryInterceptor(func(ctx context.Context, req any, _ *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
			resp, err := handler(ctx, req)
			return resp, wrapped(err)
		}),
		grpc.ChainStreamInterceptor(func(srv any, stream grpc.ServerStream, _ *grpc.StreamServerInfo, handler grpc.StreamHandler) error {
			return wrapped(handler(srv, stream))
		}),
	}
	evicted := func(ctx context.Context) error {
		w.Evict(s)
		<-ctx.Done()
		return context.Cause(ctx)
	}
	limited := func(limit fairsemgrpc.Limit, served *service) pb.TestServiceClient {
		options := slices.Concat(outer, onServer(t, limit, fairsemgrpc.Options{MaxWait: time.Minute}))
		return pb.NewTestServiceClient(dial(t, serve(t, served, options...)))
	}
	limiter, err := w.Client().Limiter(w.LimitName+"rate", 100, time.Minute)
	require.NoError(t, err)
	inner := limitedClient(t, new(service), busy, fairsemgrpc.Options{})
	calling := limited(limiter, &service{
		unary:  func(ctx context.Context) error { return kinds["unary"](ctx, inner) },
		output: func(stream grpc.ServerStream) error { return kinds["output"](stream.Context(), inner) },
	})
	evicting := &service{unary: evicted, output: func(stream grpc.ServerStream) error { return evicted(stream.Context()) }}
	refusing, losing := limited(busy, evicting), limited(s, evicting)
	for _, kind := range []string{"unary", "output"} {
		for who, c := range map[string]pb.TestServiceClient{"the server": refusing, "a client of its handler": calling} {
			err := kinds[kind](t.Context(), c)
			assert.Equal(t, time.Second, refused(t, codes.ResourceExhausted, err), "%s: %s", kind, who)
			assert.Equal(t, "seen: all units of a limit are in use", status.Convert(err).Message(), "%s: %s", kind, who)
		}
	}
	release()
	for _, kind := range []string{"unary", "output"} {
		err := kinds[kind](t.Context(), losing)
		assert.Equal(t, codes.Aborted, status.Code(err), kind)
		assert.Equal(t, "seen: the permit of the call ended while it was under way", status.Convert(err).Message(), kind)
	}
}

// full returns a handle on a semaphore whose calls are refused at once, until the test calls the function.
func (w *world) full(s *fairsem.Semaphore) (refusing *fairsem.Semaphore, release func()) {
	w.Helper()
	first := w.Occupy(s, 1)
	ctx, cancel := context.WithCancel(w.Context())
	done := make(chan error)
	go func() { // ends when its context is cancelled
		_, err := s.Acquire(ctx, 1)
		done <- err
	}()
	w.Eventually(func() bool { return w.Status(s).Waiting == 1 }, "nothing waits")
	return s.With(fairsem.CallOptions{MaxQueue: 1}), func() {
		cancel()
		assert.ErrorIs(w, <-done, context.Canceled)
		first()
	}
}

func TestMutexLetsOneCallThroughAtATime(t *testing.T) {
	w := newWorld(t)
	lock, err := w.Client().Mutex(w.LimitName)
	require.NoError(t, err)
	var counted gauge
	c := limitedServer(t, &service{unary: counted.handle}, lock, fairsemgrpc.Options{MaxWait: time.Minute})
	var calls sync.WaitGroup
	for range 20 {
		calls.Go(func() { assert.NoError(t, kinds["unary"](t.Context(), c)) })
	}
	calls.Wait()
	assert.Equal(t, int64(20), counted.All.Load())
	assert.Equal(t, int64(1), counted.Most.Load())
}

func TestRetryInfoOfALimiterIsTheTimeUntilItsTurn(t *testing.T) {
	w := newWorld(t)
	limiter, err := w.Client().Limiter(w.LimitName, 1, time.Hour)
	require.NoError(t, err)
	weight := int64(1)
	c := limitedServer(t, new(service), limiter, fairsemgrpc.Options{
		MaxWait: time.Minute, Weight: func(context.Context, string) int64 { return weight },
	})
	require.NoError(t, kinds["unary"](t.Context(), c))
	for kind, call := range kinds {
		err := call(t.Context(), c)
		retry := refused(t, codes.ResourceExhausted, err)
		assert.Greater(t, retry, 30*time.Minute, kind)
		assert.LessOrEqual(t, retry, time.Hour+time.Millisecond, kind) // a grant expires at a whole ms
		assert.Equal(t, "a rate limit is exceeded", status.Convert(err).Message())
	}
	weight = 2
	err = kinds["unary"](t.Context(), c)
	assert.Zero(t, refused(t, codes.ResourceExhausted, err), "more than the limit is never let through")
	assert.Equal(t, "the call weighs more than a limit", status.Convert(err).Message())
}

func TestLimiterLetsCallsThroughAndHoldsNothing(t *testing.T) {
	w := newWorld(t)
	limiter, err := w.Client().Limiter(w.LimitName, int64(2*len(kinds)), time.Hour)
	require.NoError(t, err)
	server := limitedServer(t, new(service), limiter, fairsemgrpc.Options{MaxWait: time.Minute})
	client := limitedClient(t, new(service), limiter, fairsemgrpc.Options{})
	for kind, call := range kinds {
		assert.NoError(t, call(t.Context(), server), kind)
		assert.NoError(t, call(t.Context(), client), kind)
	}
	assert.Equal(t, codes.ResourceExhausted, status.Code(kinds["unary"](t.Context(), server)))
}

func TestClientThatIsGoneLeavesTheQueueAtOnce(t *testing.T) {
	w := newWorld(t)
	s := w.Semaphore(1)
	defer w.Occupy(s, 1)()
	errs := make(chan error, 1)
	addr := serve(t, new(service), onServer(t, s, fairsemgrpc.Options{
		MaxWait: time.Hour, OnRefused: func(_ context.Context, _ string, err error) { errs <- err },
	})...)
	for _, kind := range []string{"unary", "duplex"} {
		for _, leave := range []func(context.CancelFunc, *grpc.ClientConn){
			func(cancel context.CancelFunc, _ *grpc.ClientConn) { cancel() },
			func(_ context.CancelFunc, conn *grpc.ClientConn) { _ = conn.Close() },
		} {
			ctx, cancel := context.WithCancel(t.Context())
			conn := dial(t, addr)
			done := make(chan error)
			go func() { done <- kinds[kind](ctx, pb.NewTestServiceClient(conn)) }() // ends with the call
			w.Eventually(func() bool { return w.Status(s).Waiting == 1 }, "the call does not wait")
			leave(cancel, conn)
			assert.Equal(t, codes.Canceled, status.Code(<-done))
			require.ErrorIs(t, <-errs, context.Canceled)
			w.Eventually(func() bool { return w.Status(s).Waiting == 0 }, "the call still waits")
			cancel()
		}
	}
}

func TestDeadlineOfACallEndsItsWait(t *testing.T) {
	w := newWorld(t)
	s := w.Semaphore(1)
	defer w.Occupy(s, 1)()
	errs := make(chan error)
	c := limitedServer(t, new(service), s, fairsemgrpc.Options{
		MaxWait: time.Hour, OnRefused: func(_ context.Context, _ string, err error) {
			select {
			case errs <- err:
			case <-t.Context().Done(): // that of another call was read
			}
		},
	})
	var err error
	w.Eventually(func() bool { // where the deadline passes before the call waits, nothing is refused
		ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
		defer cancel()
		assert.Zero(t, refused(t, codes.DeadlineExceeded, kinds["unary"](ctx, c)))
		select {
		case err = <-errs:
			return true
		case <-time.After(200 * time.Millisecond):
			return false
		}
	}, "no call is refused")
	require.True(t, errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled), "%v is neither that of the server's clock nor of the client's", err)
	w.Eventually(func() bool { return w.Status(s).Waiting == 0 }, "the call still waits")
}

func TestLimitFollowsFromMetadataAndMethod(t *testing.T) {
	w := newWorld(t)
	client := w.Client()
	busy, release := w.full(w.Semaphore(1))
	defer release()
	of := func(from func(context.Context) (metadata.MD, bool)) fairsemgrpc.Options {
		return fairsemgrpc.Options{MaxWait: time.Minute, LimitOf: func(ctx context.Context, method string) (fairsemgrpc.Limit, error) {
			md, _ := from(ctx)
			tenant := strings.Join(md.Get("tenant"), "")
			switch {
			case tenant == "busy" && method == "/grpc.testing.TestService/EmptyCall":
				return busy, nil
			case tenant == "none":
				return nil, errors.New("no tenant " + tenant)
			case tenant == "nil":
				return nil, nil
			}
			return client.Semaphore(w.LimitName+tenant, 1)
		}}
	}
	named := &service{unary: func(ctx context.Context) error {
		if md, _ := metadata.FromIncomingContext(ctx); len(md.Get("tenant")) != 1 {
			return errors.New("the handler does not see the metadata")
		}
		return nil
	}}
	for side, c := range map[string]pb.TestServiceClient{
		"server": limitedServer(t, named, nil, of(metadata.FromIncomingContext)),
		"client": limitedClient(t, named, nil, of(metadata.FromOutgoingContext)),
	} {
		for tenant, want := range map[string]codes.Code{
			"busy": codes.ResourceExhausted, "idle": codes.OK, "none": codes.Internal, "nil": codes.Internal, strings.Repeat("x", 600): codes.Internal,
		} {
			err := kinds["unary"](metadata.AppendToOutgoingContext(t.Context(), "tenant", tenant), c)
			assert.Equal(t, want, status.Code(err), "%s: %s", side, tenant)
			if side == "server" && want != codes.OK {
				assert.NotContains(t, err.Error(), tenant, "what a server sends has no part of the call")
			}
		}
		assert.NoError(t, kinds["duplex"](metadata.AppendToOutgoingContext(t.Context(), "tenant", "busy"), c), "another method has another limit")
	}
}

// recovering turns panics into errors, as interceptors that stand before others do.
func recovering() []grpc.ServerOption {
	caught := func(err *error) {
		if p := recover(); p != nil {
			*err = status.Error(codes.DataLoss, fmt.Sprint(p))
		}
	}
	return []grpc.ServerOption{
		grpc.ChainUnaryInterceptor(func(ctx context.Context, req any, _ *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (_ any, err error) {
			defer caught(&err)
			return handler(ctx, req)
		}),
		grpc.ChainStreamInterceptor(func(srv any, s grpc.ServerStream, _ *grpc.StreamServerInfo, handler grpc.StreamHandler) (err error) {
			defer caught(&err)
			return handler(srv, s)
		}),
	}
}

func TestHandlerThatPanicsReleases(t *testing.T) {
	w := newWorld(t)
	s := w.Semaphore(1)
	addr := serve(t, &service{
		unary:  func(context.Context) error { panic("unary") },
		output: func(grpc.ServerStream) error { panic("output") },
		input:  func(grpc.ServerStream) error { panic("input") },
		duplex: func(pb.TestService_FullDuplexCallServer) error { panic("duplex") },
	}, append(recovering(), onServer(t, s, fairsemgrpc.Options{MaxWait: time.Minute})...)...)
	c := pb.NewTestServiceClient(dial(t, addr))
	for kind, call := range kinds {
		assert.Equal(t, kind, status.Convert(call(t.Context(), c)).Message())
		w.EventuallyUsed(s, 0)
	}
}

// panicking is a codec that panics when it decodes a message with a payload.
type panicking struct{ encoding.CodecV2 }

func (p panicking) Unmarshal(data mem.BufferSlice, m any) error {
	err := p.CodecV2.Unmarshal(data, m)
	if got, ok := m.(*pb.StreamingOutputCallRequest); ok && got.GetPayload() != nil {
		panic("decoded")
	}
	return err
}

// The receiver is a goroutine of its own, in which nothing would recover.
func TestPanicOfACodecIsOneOfTheHandler(t *testing.T) {
	w := newWorld(t)
	s := w.Semaphore(1)
	options := append(recovering(), grpc.ForceServerCodecV2(panicking{encoding.GetCodecV2(proto.Name)}))
	c := pb.NewTestServiceClient(dial(t, serve(t, new(service), append(options, onServer(t, s, fairsemgrpc.Options{MaxWait: time.Minute})...)...)))
	stream, err := c.FullDuplexCall(t.Context())
	require.NoError(t, err)
	require.NoError(t, stream.Send(&pb.StreamingOutputCallRequest{Payload: new(pb.Payload)}))
	_, err = stream.Recv()
	assert.Equal(t, "decoded", status.Convert(err).Message())
	w.EventuallyUsed(s, 0)
}

func TestLostPermitEndsTheContextOfTheCallAndTheCallIsAborted(t *testing.T) {
	w := newWorld(t)
	s := w.Semaphore(1)
	causes := make(chan error, 1)
	wait := func(ctx context.Context) error {
		assert.NoError(t, ctx.Err())
		w.Evict(s)
		<-ctx.Done()
		causes <- context.Cause(ctx)
		return ctx.Err()
	}
	c := limitedServer(t, &service{
		unary: wait,
		output: func(stream grpc.ServerStream) error {
			_ = wait(stream.Context())
			return stream.SendMsg(new(pb.StreamingOutputCallResponse))
		},
		duplex: func(stream pb.TestService_FullDuplexCallServer) error { // does not look at its context
			if _, err := stream.Recv(); err != nil {
				return err
			}
			w.Evict(s)
			for {
				if _, err := stream.Recv(); err != nil {
					_, again := stream.Recv()
					assert.ErrorIs(t, again, fairsem.ErrLost)
					causes <- err
					return err
				}
			}
		},
	}, s, fairsemgrpc.Options{MaxWait: time.Minute})
	for _, kind := range []string{"unary", "output"} {
		err := kinds[kind](t.Context(), c)
		assert.ErrorIs(t, <-causes, fairsem.ErrLost, kind)
		assert.Equal(t, codes.Aborted, status.Code(err), kind)
		assert.Contains(t, status.Convert(err).Message(), "permit")
		assert.NotContains(t, status.Convert(err).Message(), w.LimitName)
		w.EventuallyUsed(s, 0)
	}
	stream, err := c.FullDuplexCall(t.Context()) // it stays open: the handler waits for a message that does not come
	require.NoError(t, err)
	require.NoError(t, stream.Send(new(pb.StreamingOutputCallRequest)))
	_, err = stream.Recv()
	assert.ErrorIs(t, <-causes, fairsem.ErrLost)
	assert.Equal(t, codes.Aborted, status.Code(err))
}

func TestCallWhoseClientIsClosedIsAborted(t *testing.T) {
	w := newWorld(t)
	client := w.Client()
	s, err := client.Semaphore(w.LimitName, 1)
	require.NoError(t, err)
	c := limitedServer(t, &service{unary: func(ctx context.Context) error {
		assert.NoError(t, client.Close())
		<-ctx.Done()
		return ctx.Err()
	}}, s, fairsemgrpc.Options{MaxWait: time.Minute})
	assert.Equal(t, codes.Aborted, status.Code(kinds["unary"](t.Context(), c)))
}

// The call holds a permit of its first limit, whose end ends the context of the second wait.
func TestCallThatWaitsForItsSecondLimitIsRefusedWhenTheClientIsClosed(t *testing.T) {
	w := newWorld(t)
	client := w.Client()
	first, err := client.Semaphore(w.LimitName+"first", 1)
	require.NoError(t, err)
	second, err := client.Semaphore(w.LimitName, 1)
	require.NoError(t, err)
	_, err = second.Acquire(t.Context(), 1)
	require.NoError(t, err)
	o := fairsemgrpc.Options{MaxWait: time.Hour}
	c := pb.NewTestServiceClient(dial(t, serve(t, new(service), slices.Concat(onServer(t, first, o), onServer(t, second, o))...)))
	failed := make(chan error, 1)
	go func() { failed <- kinds["unary"](t.Context(), c) }() // ends when the client is closed
	w.Eventually(func() bool { return w.Status(w.Semaphore(1)).Waiting == 1 }, "the call does not wait")
	require.NoError(t, client.Close())
	assert.Equal(t, time.Second, refused(t, codes.Unavailable, <-failed))
}

func TestOutcomeThatIsNotOfTheLossPassesThrough(t *testing.T) {
	w := newWorld(t)
	s := w.Semaphore(1)
	for want, outcome := range map[codes.Code]error{
		codes.NotFound: status.Error(codes.NotFound, "of the handler"),
		codes.Unknown:  errors.New("of a driver: canceling statement"),
		codes.OK:       nil,
	} {
		c := limitedServer(t, &service{unary: func(ctx context.Context) error {
			w.Evict(s)
			<-ctx.Done()
			return outcome
		}}, s, fairsemgrpc.Options{MaxWait: time.Minute})
		assert.Equal(t, want, status.Code(kinds["unary"](t.Context(), c)))
	}
}

func TestClientThatDisconnectsEndsRecvOfTheHandler(t *testing.T) {
	w := newWorld(t)
	s := w.Semaphore(1)
	ended := make(chan error, 1)
	c := limitedServer(t, &service{duplex: func(stream pb.TestService_FullDuplexCallServer) error {
		err := echo(stream)
		ended <- err
		_, again := stream.Recv()
		assert.Error(t, again)
		return err
	}}, s, fairsemgrpc.Options{})
	ctx, cancel := context.WithCancel(t.Context())
	echoed(ctx, t, c)
	cancel()
	assert.Equal(t, codes.Canceled, status.Code(<-ended))
	w.EventuallyUsed(s, 0)
}

// echoed opens a stream, on which a message has come back.
func echoed(ctx context.Context, t *testing.T, c pb.TestServiceClient) {
	t.Helper()
	stream, err := c.FullDuplexCall(ctx)
	require.NoError(t, err)
	require.NoError(t, stream.Send(new(pb.StreamingOutputCallRequest)))
	_, err = stream.Recv()
	require.NoError(t, err)
}

func TestOutageOfRedisRefusesOrAdmitsAfterMaxWait(t *testing.T) {
	w := newWorld(t)
	server := redistest.NewServer(t)
	w.Redis = server.Addr()
	s := w.Semaphore(1)
	w.Occupy(s, 1)()
	require.NoError(t, server.Pause())
	var calls sync.WaitGroup
	for _, side := range []func(testing.TB, *service, fairsemgrpc.Limit, fairsemgrpc.Options) pb.TestServiceClient{limitedServer, limitedClient} {
		for _, kind := range []string{"unary", "duplex"} {
			o := fairsemgrpc.Options{MaxWait: time.Second, OnAdmitted: func(context.Context, string, error) { t.Error("admitted") }}
			refusing := side(t, new(service), s, o)
			admitted := make(chan error, 1)
			o.OnUnavailable, o.OnAdmitted = fairsemgrpc.Admit, func(_ context.Context, _ string, err error) { admitted <- err }
			admitting := side(t, new(service), s, o)
			// A question that a busy machine sends late says nothing about Redis: the call is refused as if the units were in use.
			call := func(c pb.TestServiceClient) (err error) {
				for err = kinds[kind](t.Context(), c); status.Code(err) == codes.ResourceExhausted; {
					err = kinds[kind](t.Context(), c)
				}
				return err
			}
			calls.Go(func() { assert.Equal(t, 10*time.Second, refused(t, codes.Unavailable, call(refusing))) })
			calls.Go(func() {
				if assert.NoError(t, call(admitting)) {
					assert.ErrorIs(t, <-admitted, fairsem.ErrUnavailable)
				}
			})
		}
	}
	calls.Wait()
	require.NoError(t, server.Resume())
}

func TestAdmitLetsNothingThroughThatTheLimitRefuses(t *testing.T) {
	w := newWorld(t)
	client := w.Client()
	s, err := client.Semaphore(w.LimitName, 1)
	require.NoError(t, err)
	busy, release := w.full(s)
	weight := int64(1)
	c := limitedServer(t, new(service), busy, fairsemgrpc.Options{
		MaxWait: time.Minute, OnUnavailable: fairsemgrpc.Admit, Weight: func(context.Context, string) int64 { return weight },
	})
	assert.Equal(t, time.Second, refused(t, codes.ResourceExhausted, kinds["unary"](t.Context(), c)))
	weight = 2
	err = kinds["unary"](t.Context(), c)
	assert.Zero(t, refused(t, codes.ResourceExhausted, err))
	assert.Equal(t, "the call weighs more than a limit", status.Convert(err).Message())
	weight = 0
	assert.Zero(t, refused(t, codes.Internal, kinds["unary"](t.Context(), c)))
	weight = 1
	release()
	require.NoError(t, client.Close())
	assert.Equal(t, time.Second, refused(t, codes.Unavailable, kinds["unary"](t.Context(), c)))
}

// The tests of internal/gate have all invalid settings; one case shows that they are checked.
func TestInterceptorThatCannotWorkIsNotMade(t *testing.T) {
	w := newWorld(t)
	s, o := w.Semaphore(1), fairsemgrpc.Options{MaxWait: -2}
	unaryServer, a := fairsemgrpc.UnaryServerInterceptor(s, o)
	streamServer, b := fairsemgrpc.StreamServerInterceptor(s, o)
	unaryClient, c := fairsemgrpc.UnaryClientInterceptor(s, o)
	streamClient, d := fairsemgrpc.StreamClientInterceptor(s, o)
	assert.True(t, unaryServer == nil && streamServer == nil && unaryClient == nil && streamClient == nil)
	for name, err := range map[string]error{"UnaryServerInterceptor": a, "StreamServerInterceptor": b, "UnaryClientInterceptor": c, "StreamClientInterceptor": d} {
		assert.ErrorIs(t, err, fairsem.ErrInvalid)
		assert.ErrorContains(t, err, "fairsemgrpc."+name)
	}
}

// seen is the stream of an outer interceptor, which needs no lock: calls of RecvMsg are not concurrent.
type seen struct {
	grpc.ServerStream
	last error
}

func (s *seen) RecvMsg(m any) error {
	s.last = s.ServerStream.RecvMsg(m)
	return s.last
}

// With the race detector.
func TestNoRecvMsgOfAStreamThatIsCanceledOutlivesItsHandler(t *testing.T) {
	w := newWorld(t)
	ended := make(chan error, 1)
	outer := grpc.ChainStreamInterceptor(func(srv any, stream grpc.ServerStream, _ *grpc.StreamServerInfo, handler grpc.StreamHandler) error {
		s := &seen{ServerStream: stream}
		err := handler(srv, s)
		ended <- s.last
		return err
	})
	c := pb.NewTestServiceClient(dial(t, serve(t, new(service), append([]grpc.ServerOption{outer}, onServer(t, w.Semaphore(5), fairsemgrpc.Options{})...)...)))
	for range 50 {
		ctx, cancel := context.WithCancel(t.Context())
		echoed(ctx, t, c)
		cancel()
		assert.NotErrorIs(t, <-ended, io.EOF)
	}
}

// Generated code receives the one message of such a call before the handler begins.
func TestLossEndsACallWhoseClientSendsNothing(t *testing.T) {
	w := newWorld(t)
	s := w.Semaphore(1)
	conn := dial(t, serve(t, new(service), onServer(t, s, fairsemgrpc.Options{})...))
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	stream, err := conn.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true, ClientStreams: true}, pb.TestService_StreamingOutputCall_FullMethodName)
	require.NoError(t, err)
	w.EventuallyUsed(s, 1)
	w.Evict(s)
	assert.Equal(t, codes.Aborted, status.Code(stream.RecvMsg(new(pb.StreamingOutputCallResponse))))
}

// endless is a stream whose context an interceptor can end.
type endless struct {
	grpc.ServerStream
	ctx context.Context
}

func (e endless) Context() context.Context { return e.ctx }

func TestEndOfThePermitEndsRecvMsgThoughTheContextHadEndedBefore(t *testing.T) {
	t.Run("ended before", func(t *testing.T) { testEndOfThePermitEndsRecvMsg(t, true) })
	t.Run("goes on", func(t *testing.T) { testEndOfThePermitEndsRecvMsg(t, false) })
}

// testEndOfThePermitEndsRecvMsg ends the context that an interceptor has made before the permit ends, or lets it go on.
func testEndOfThePermitEndsRecvMsg(t *testing.T, before bool) {
	for what, end := range map[string]func(w *world, c *fairsem.Client){
		"evicted": func(w *world, _ *fairsem.Client) { w.Evict(w.Semaphore(1)) },
		"closed":  func(w *world, c *fairsem.Client) { assert.NoError(w, c.Close()) },
	} {
		t.Run(what, func(t *testing.T) {
			w := newWorld(t)
			client := w.Client()
			s, err := client.Semaphore(w.LimitName, 1)
			require.NoError(t, err)
			var cancel context.CancelFunc // set and called in the goroutine of the one call
			outer := grpc.ChainStreamInterceptor(func(srv any, stream grpc.ServerStream, _ *grpc.StreamServerInfo, handler grpc.StreamHandler) error {
				var ctx context.Context
				ctx, cancel = context.WithCancel(stream.Context())
				return handler(srv, endless{stream, ctx})
			})
			began, received := make(chan struct{}), make(chan error, 1)
			handler := &service{duplex: func(stream pb.TestService_FullDuplexCallServer) error {
				if before {
					cancel()
				}
				close(began)
				_, err := stream.Recv()
				received <- err
				_, err = stream.Recv() // the first is still under way below
				received <- err
				received <- stream.Send(new(pb.StreamingOutputCallResponse))
				return err
			}}
			c := pb.NewTestServiceClient(dial(t, serve(t, handler, append([]grpc.ServerOption{outer}, onServer(t, s, fairsemgrpc.Options{})...)...)))
			_, err = c.FullDuplexCall(t.Context())
			require.NoError(t, err)
			<-began
			end(w, client)
			for range 3 {
				assert.Equal(t, codes.Aborted, status.Code(<-received))
			}
		})
	}
}
