package otlp_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os/signal"
	"sync"
	"syscall"

	metrics "go.opentelemetry.io/proto/otlp/collector/metrics/v1"
	traces "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
)

// received is a line of the receiver: at first its address, then one message of a request.
type received struct {
	Address string `json:",omitempty"`
	Metrics []byte `json:",omitempty"`
	Spans   []byte `json:",omitempty"`
}

// receiver is both services of OTLP over gRPC. It writes each request before it answers.
type receiver struct {
	mu  sync.Mutex
	out *json.Encoder
}

type (
	metricsReceiver struct {
		metrics.UnimplementedMetricsServiceServer
		*receiver
	}
	traceReceiver struct {
		traces.UnimplementedTraceServiceServer
		*receiver
	}
)

// receive writes the data exported to it until SIGTERM or the end of ctx.
func receive(ctx context.Context, out io.Writer) error {
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGTERM)
	defer stop()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	r := &receiver{out: json.NewEncoder(out)}
	if err := r.write(received{Address: listener.Addr().String()}); err != nil {
		return err
	}
	server := grpc.NewServer()
	metrics.RegisterMetricsServiceServer(server, metricsReceiver{receiver: r})
	traces.RegisterTraceServiceServer(server, traceReceiver{receiver: r})
	defer context.AfterFunc(ctx, server.GracefulStop)()
	return server.Serve(listener)
}

func (r *receiver) write(line received) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.out.Encode(line)
}

func (r metricsReceiver) Export(_ context.Context, request *metrics.ExportMetricsServiceRequest) (*metrics.ExportMetricsServiceResponse, error) {
	body, err := proto.Marshal(request)
	if err != nil {
		return nil, fmt.Errorf("metrics: %w", err)
	}
	return &metrics.ExportMetricsServiceResponse{}, r.write(received{Metrics: body})
}

func (r traceReceiver) Export(_ context.Context, request *traces.ExportTraceServiceRequest) (*traces.ExportTraceServiceResponse, error) {
	body, err := proto.Marshal(request)
	if err != nil {
		return nil, fmt.Errorf("spans: %w", err)
	}
	return &traces.ExportTraceServiceResponse{}, r.write(received{Spans: body})
}
