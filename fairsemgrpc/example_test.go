package fairsemgrpc_test

import (
	"context"
	"fmt"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	pb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/fairsem/fairsem"
	"github.com/fairsem/fairsem/fairsemgrpc"
	"github.com/fairsem/fairsem/internal/worldtest"
)

// tenantServer handles at most 5 calls of each tenant at once, on all servers together. Health checks are not limited.
func tenantServer(client *fairsem.Client) (*grpc.Server, error) {
	options := fairsemgrpc.Options{
		MaxWait: time.Second,
		LimitOf: func(ctx context.Context, _ string) (fairsemgrpc.Limit, error) {
			tenant := metadata.ValueFromIncomingContext(ctx, "tenant") // what has authenticated the call sets it
			return client.Semaphore("tenant/"+strings.Join(tenant, ","), 5)
		},
	}
	unary, err := fairsemgrpc.UnaryServerInterceptor(nil, options)
	if err != nil {
		return nil, err
	}
	stream, err := fairsemgrpc.StreamServerInterceptor(nil, options)
	if err != nil {
		return nil, err
	}
	const healthService = "/grpc.health.v1.Health/" // Check is unary, Watch is a stream for as long as its client lives
	unaryUnlessHealth := func(ctx context.Context, req any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
		if strings.HasPrefix(info.FullMethod, healthService) {
			return handler(ctx, req)
		}
		return unary(ctx, req, info, handler)
	}
	streamUnlessHealth := func(srv any, ss grpc.ServerStream, info *grpc.StreamServerInfo, handler grpc.StreamHandler) error {
		if strings.HasPrefix(info.FullMethod, healthService) {
			return handler(srv, ss)
		}
		return stream(srv, ss, info, handler)
	}
	return grpc.NewServer(grpc.ChainUnaryInterceptor(unaryUnlessHealth), grpc.ChainStreamInterceptor(streamUnlessHealth)), nil
}

// A server with a limit for each tenant.
func ExampleUnaryServerInterceptor() {
	client, stop := worldtest.Example()
	defer stop()
	server, err := tenantServer(client)
	if err != nil {
		fmt.Println(err)
		return
	}
	pb.RegisterTestServiceServer(server, new(service))
	healthpb.RegisterHealthServer(server, health.NewServer())
	conn, stopServer := start(server)
	defer stopServer()

	busy, err := client.Semaphore("tenant/a", 5)
	if err != nil {
		fmt.Println(err)
		return
	}
	permit, err := busy.Acquire(context.Background(), 5) // five calls of tenant a are being handled
	if err != nil {
		fmt.Println(err)
		return
	}
	of := func(tenant string) context.Context {
		return metadata.AppendToOutgoingContext(context.Background(), "tenant", tenant)
	}
	for _, tenant := range []string{"a", "b"} {
		_, err := pb.NewTestServiceClient(conn).EmptyCall(of(tenant), new(pb.Empty))
		fmt.Println(tenant, status.Code(err), retryOf(err))
	}
	checks := healthpb.NewHealthClient(conn)
	_, err = checks.Check(of("a"), new(healthpb.HealthCheckRequest))
	fmt.Println("check", status.Code(err))
	watch, err := checks.Watch(of("a"), new(healthpb.HealthCheckRequest))
	if err == nil {
		_, err = watch.Recv()
	}
	fmt.Println("watch", status.Code(err))
	fmt.Println(permit.Release(context.Background()))
	// Output:
	// a ResourceExhausted 1s
	// b OK 0s
	// check OK
	// watch OK
	// <nil>
}

// modelConn returns a connection to a model server. All pods together have at most 20 calls on it at once.
func modelConn(client *fairsem.Client, target string) (*grpc.ClientConn, error) {
	calls, err := client.Semaphore("model", 20)
	if err != nil {
		return nil, err
	}
	unary, err := fairsemgrpc.UnaryClientInterceptor(calls, fairsemgrpc.Options{})
	if err != nil {
		return nil, err
	}
	stream, err := fairsemgrpc.StreamClientInterceptor(calls, fairsemgrpc.Options{})
	if err != nil {
		return nil, err
	}
	return grpc.NewClient(target,
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithChainUnaryInterceptor(unary), grpc.WithChainStreamInterceptor(stream))
}

// At most 20 calls to a model server from all pods. A stream is one call until its end was read.
func ExampleStreamClientInterceptor() {
	client, stop := worldtest.Example()
	defer stop()
	var counted gauge
	server := grpc.NewServer()
	pb.RegisterTestServiceServer(server, &service{
		unary:  counted.handle,
		output: func(s grpc.ServerStream) error { return counted.handle(s.Context()) },
	})
	direct, stopServer := start(server)
	defer stopServer()
	conn, err := modelConn(client, direct.Target())
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = conn.Close() }() // the example is over

	model := pb.NewTestServiceClient(conn)
	var questions sync.WaitGroup
	var answers atomic.Int64
	for range 50 {
		for _, kind := range []string{"unary", "output"} {
			questions.Go(func() {
				if err := kinds[kind](context.Background(), model); err != nil {
					fmt.Println(err)
					return
				}
				answers.Add(1)
			})
		}
	}
	questions.Wait()
	fmt.Println(answers.Load(), "answers, more than 20 at once:", counted.Most.Load() > 20)
	// Output: 100 answers, more than 20 at once: false
}

// start serves on loopback. It returns a connection, and a function that ends both.
func start(server *grpc.Server) (*grpc.ClientConn, func()) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	go func() { _ = server.Serve(l) }() // ends with the server
	conn, err := connect(l.Addr().String())
	if err != nil {
		panic(err)
	}
	return conn, func() {
		_ = conn.Close() // the example is over
		server.Stop()
	}
}
