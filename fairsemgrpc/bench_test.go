package fairsemgrpc_test

import (
	"context"
	"io"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	pb "google.golang.org/grpc/interop/grpc_testing"

	"github.com/fairsem/fairsem/fairsemgrpc"
	"github.com/fairsem/fairsem/internal/worldtest"
)

// each measures bare calls, calls with a limit on the server, calls with a limit in the client, and a pair without a call.
func each(b *testing.B, measure func(*testing.B, pb.TestServiceClient)) {
	s := worldtest.Unreached(b, nil)
	bare := serve(b, new(service))
	client := func(addr string, opts ...grpc.DialOption) func(*testing.B) {
		c := pb.NewTestServiceClient(dial(b, addr, opts...))
		return func(b *testing.B) {
			b.ReportAllocs()
			measure(b, c)
		}
	}
	b.Run("bare", client(bare))
	b.Run("server", client(serve(b, new(service), onServer(b, s, fairsemgrpc.Options{})...)))
	b.Run("client", client(bare, inClient(b, s, fairsemgrpc.Options{})...))
	b.Run("pair", func(b *testing.B) { worldtest.BenchmarkPair(b, s) })
}

// A unary call over loopback, one at a time.
func BenchmarkUnary(b *testing.B) {
	each(b, func(b *testing.B, c pb.TestServiceClient) {
		for b.Loop() {
			_, err := c.EmptyCall(b.Context(), new(pb.Empty))
			require.NoError(b, err)
		}
	})
}

// A stream of one message each way over loopback, one at a time.
func BenchmarkStream(b *testing.B) {
	each(b, func(b *testing.B, c pb.TestServiceClient) {
		for b.Loop() {
			require.NoError(b, kinds["duplex"](b.Context(), c))
		}
	})
}

// A message each way in one stream.
func BenchmarkMessage(b *testing.B) {
	each(b, func(b *testing.B, c pb.TestServiceClient) {
		stream, err := c.FullDuplexCall(b.Context())
		require.NoError(b, err)
		for b.Loop() {
			require.NoError(b, stream.Send(new(pb.StreamingOutputCallRequest)))
			_, err := stream.Recv()
			require.NoError(b, err)
		}
		require.NoError(b, stream.CloseSend())
		_, err = stream.Recv()
		require.Equal(b, io.EOF, err)
	})
}

// silent is a stream of a server without a network.
type silent struct {
	grpc.ServerStream
	ctx context.Context
}

func (s silent) Context() context.Context { return s.ctx }
func (s silent) RecvMsg(any) error        { return nil }

// The cost of a call beside its handling and a pair of acquire and release.
func TestEachCallMakesAtMostTwentyFourAllocationsOfItsOwn(t *testing.T) {
	cost := worldtest.NewCost(t)
	unary, err := fairsemgrpc.UnaryServerInterceptor(cost.Limit, fairsemgrpc.Options{MaxWait: time.Minute})
	require.NoError(t, err)
	stream, err := fairsemgrpc.StreamServerInterceptor(cost.Limit, fairsemgrpc.Options{MaxWait: time.Minute})
	require.NoError(t, err)
	call, err := fairsemgrpc.UnaryClientInterceptor(cost.Limit, fairsemgrpc.Options{MaxWait: time.Minute})
	require.NoError(t, err)
	open, err := fairsemgrpc.StreamClientInterceptor(cost.Limit, fairsemgrpc.Options{MaxWait: time.Minute})
	require.NoError(t, err)
	// Allocations of gRPC do not count.
	var (
		boxed    = grpc.ServerStream(silent{ctx: t.Context()})
		unaryOf  = new(grpc.UnaryServerInfo)
		streamOf = &grpc.StreamServerInfo{IsClientStream: true}
		desc     = new(grpc.StreamDesc)
		inner    = new(stub)
		conn     = dial(t, "127.0.0.1:1")
	)
	for what, f := range map[string]func() error{
		"a unary call on a server": func() error {
			_, err := unary(t.Context(), nil, unaryOf, func(context.Context, any) (any, error) { return nil, nil })
			return err
		},
		"a stream on a server": func() error {
			return stream(nil, boxed, streamOf, func(_ any, s grpc.ServerStream) error { return s.RecvMsg(nil) })
		},
		"a unary call of a client": func() error {
			return call(t.Context(), "/x", nil, nil, nil, func(context.Context, string, any, any, *grpc.ClientConn, ...grpc.CallOption) error { return nil })
		},
		"a stream of a client": func() error {
			s, err := open(t.Context(), desc, conn, "/x", func(context.Context, *grpc.StreamDesc, *grpc.ClientConn, string, ...grpc.CallOption) (grpc.ClientStream, error) {
				return inner, nil
			})
			require.NoError(t, err)
			return s.RecvMsg(nil)
		},
	} {
		assert.LessOrEqual(t, cost.Allocations(t, func() { require.NoError(t, f()) }), 24.0, what)
	}
}
