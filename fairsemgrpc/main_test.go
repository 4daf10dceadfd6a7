package fairsemgrpc_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	pb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/status"

	"github.com/fairsem/fairsem"
	"github.com/fairsem/fairsem/fairsemgrpc"
	"github.com/fairsem/fairsem/internal/redistest"
	"github.com/fairsem/fairsem/internal/worldtest"
)

func TestMain(m *testing.M) { worldtest.Main[order](func() int { return redistest.Main(m) }) }

// world is a limit of its own on a server.
type world struct{ *worldtest.World }

func newWorld(t *testing.T) *world {
	t.Helper()
	return &world{worldtest.New(t)}
}

// service is the handlers of the servers of tests. All of them are optional.
type service struct {
	pb.UnimplementedTestServiceServer
	unary  func(context.Context) error
	output func(grpc.ServerStream) error // one request, several responses
	input  func(grpc.ServerStream) error // several requests, one response
	duplex func(pb.TestService_FullDuplexCallServer) error
}

func (s *service) EmptyCall(ctx context.Context, _ *pb.Empty) (*pb.Empty, error) {
	if s.unary == nil {
		return new(pb.Empty), nil
	}
	return new(pb.Empty), s.unary(ctx)
}

func (s *service) StreamingOutputCall(_ *pb.StreamingOutputCallRequest, stream pb.TestService_StreamingOutputCallServer) error {
	if s.output != nil {
		return s.output(stream)
	}
	return errors.Join(stream.Send(new(pb.StreamingOutputCallResponse)), stream.Send(new(pb.StreamingOutputCallResponse)))
}

func (s *service) StreamingInputCall(stream pb.TestService_StreamingInputCallServer) error {
	if s.input != nil {
		return s.input(stream)
	}
	for n := int32(0); ; n++ {
		if _, err := stream.Recv(); errors.Is(err, io.EOF) {
			return stream.SendAndClose(&pb.StreamingInputCallResponse{AggregatedPayloadSize: n})
		} else if err != nil {
			return err
		}
	}
}

func (s *service) FullDuplexCall(stream pb.TestService_FullDuplexCallServer) error {
	if s.duplex != nil {
		return s.duplex(stream)
	}
	return echo(stream)
}

// echo answers every message with its payload until the client has sent the last one.
func echo(stream pb.TestService_FullDuplexCallServer) error {
	for {
		m, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err == nil {
			err = stream.Send(&pb.StreamingOutputCallResponse{Payload: m.GetPayload()})
		}
		if err != nil {
			return err
		}
	}
}

// onServer is both interceptors of a server.
func onServer(t testing.TB, limit fairsemgrpc.Limit, o fairsemgrpc.Options) []grpc.ServerOption {
	t.Helper()
	unary, err := fairsemgrpc.UnaryServerInterceptor(limit, o)
	require.NoError(t, err)
	stream, err := fairsemgrpc.StreamServerInterceptor(limit, o)
	require.NoError(t, err)
	return []grpc.ServerOption{grpc.ChainUnaryInterceptor(unary), grpc.ChainStreamInterceptor(stream)}
}

// inClient is both interceptors of a client.
func inClient(t testing.TB, limit fairsemgrpc.Limit, o fairsemgrpc.Options) []grpc.DialOption {
	t.Helper()
	unary, err := fairsemgrpc.UnaryClientInterceptor(limit, o)
	require.NoError(t, err)
	stream, err := fairsemgrpc.StreamClientInterceptor(limit, o)
	require.NoError(t, err)
	return []grpc.DialOption{grpc.WithChainUnaryInterceptor(unary), grpc.WithChainStreamInterceptor(stream)}
}

// serve starts a server, which the end of the test stops, and returns its address.
func serve(t testing.TB, s *service, opts ...grpc.ServerOption) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	server := grpc.NewServer(append(opts, grpc.WaitForHandlers(true))...)
	pb.RegisterTestServiceServer(server, s)
	t.Cleanup(server.Stop)
	go func() { _ = server.Serve(l) }() // ends with the server
	return l.Addr().String()
}

// dial returns a connection, which the end of the test closes.
func dial(t testing.TB, addr string, opts ...grpc.DialOption) *grpc.ClientConn {
	t.Helper()
	conn, err := connect(addr, opts...)
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() }) // some tests have closed it
	return conn
}

func connect(addr string, opts ...grpc.DialOption) (*grpc.ClientConn, error) {
	return grpc.NewClient(addr, append(opts, grpc.WithTransportCredentials(insecure.NewCredentials()))...)
}

// limitedServer is a client of a server whose calls the limit bounds.
func limitedServer(t testing.TB, s *service, limit fairsemgrpc.Limit, o fairsemgrpc.Options) pb.TestServiceClient {
	t.Helper()
	return pb.NewTestServiceClient(dial(t, serve(t, s, onServer(t, limit, o)...)))
}

// limitedClient is a client whose calls the limit bounds.
func limitedClient(t testing.TB, s *service, limit fairsemgrpc.Limit, o fairsemgrpc.Options) pb.TestServiceClient {
	t.Helper()
	return pb.NewTestServiceClient(dial(t, serve(t, s), inClient(t, limit, o)...))
}

// kinds makes a whole call of each kind.
var kinds = map[string]func(context.Context, pb.TestServiceClient) error{
	"unary": func(ctx context.Context, c pb.TestServiceClient) error {
		_, err := c.EmptyCall(ctx, new(pb.Empty))
		return err
	},
	"output": func(ctx context.Context, c pb.TestServiceClient) error {
		stream, err := c.StreamingOutputCall(ctx, new(pb.StreamingOutputCallRequest))
		for err == nil {
			_, err = stream.Recv()
		}
		return unless(err, io.EOF)
	},
	"input": func(ctx context.Context, c pb.TestServiceClient) error {
		stream, err := c.StreamingInputCall(ctx)
		for n := 0; n < 3 && err == nil; n++ {
			err = stream.Send(new(pb.StreamingInputCallRequest))
		}
		if unless(err, io.EOF) != nil { // else CloseAndRecv has the error
			return err
		}
		_, err = stream.CloseAndRecv()
		return err
	},
	"duplex": func(ctx context.Context, c pb.TestServiceClient) error {
		stream, err := c.FullDuplexCall(ctx)
		if err != nil {
			return err
		}
		err = unless(stream.Send(new(pb.StreamingOutputCallRequest)), io.EOF) // after io.EOF, Recv has the error
		if err == nil {
			err = stream.CloseSend()
		}
		for err == nil {
			_, err = stream.Recv()
		}
		return unless(err, io.EOF)
	},
}

func unless(err, end error) error {
	if errors.Is(err, end) {
		return nil
	}
	return err
}

// retryOf returns the delay of the RetryInfo of an error, 0 if it has none.
func retryOf(err error) time.Duration {
	for _, detail := range status.Convert(err).Details() {
		if info, ok := detail.(*errdetails.RetryInfo); ok {
			return info.GetRetryDelay().AsDuration()
		}
	}
	return 0
}

// gauge counts the calls that it handles.
type gauge struct{ worldtest.Gauge }

func (g *gauge) handle(context.Context) error {
	g.During(func() {})
	return nil
}

// order is the task of a worker process.
type order struct {
	Redis, Name, Peer string
	Limit             int64
	Rounds            int // call Peer this often in each of four goroutines; 0: serve, and call Peer in each call
}

// Work does the order.
func (o order) Work(ctx context.Context) error {
	rdb := redis.NewClient(&redis.Options{Addr: o.Redis})
	defer func() { _ = rdb.Close() }() // the process ends
	client, err := fairsem.New(rdb, fairsem.Options{})
	if err != nil {
		return err
	}
	s, err := client.Semaphore(o.Name, o.Limit)
	switch {
	case err != nil:
		return err
	case o.Rounds == 0:
		return o.serve(ctx, s)
	}
	unary, err := fairsemgrpc.UnaryClientInterceptor(s, fairsemgrpc.Options{})
	if err != nil {
		return err
	}
	stream, err := fairsemgrpc.StreamClientInterceptor(s, fairsemgrpc.Options{})
	if err != nil {
		return err
	}
	conn, err := connect(o.Peer, grpc.WithChainUnaryInterceptor(unary), grpc.WithChainStreamInterceptor(stream))
	if err != nil {
		return err
	}
	c := pb.NewTestServiceClient(conn)
	err = worldtest.InFour(o.Rounds, func() error {
		return errors.Join(kinds["unary"](ctx, c), kinds["output"](ctx, c), kinds["input"](ctx, c), kinds["duplex"](ctx, c))
	})
	return errors.Join(err, conn.Close(), client.Close())
}

func (o order) serve(ctx context.Context, s *fairsem.Semaphore) error {
	options := fairsemgrpc.Options{MaxWait: time.Minute}
	unary, err := fairsemgrpc.UnaryServerInterceptor(s, options)
	if err != nil {
		return err
	}
	conn, err := connect(o.Peer)
	if err != nil {
		return err
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	server := grpc.NewServer(grpc.ChainUnaryInterceptor(unary))
	pb.RegisterTestServiceServer(server, &service{unary: func(ctx context.Context) error {
		return kinds["unary"](ctx, pb.NewTestServiceClient(conn))
	}})
	fmt.Println(l.Addr())
	context.AfterFunc(ctx, server.Stop)
	return server.Serve(l)
}

// refused asserts the code of a call that was not let through, and returns its RetryInfo.
func refused(t testing.TB, want codes.Code, err error) time.Duration {
	t.Helper()
	assert.Equal(t, want, status.Code(err), "%v", err)
	return retryOf(err)
}
