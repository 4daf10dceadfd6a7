package fairsemgrpc

import (
	"context"

	"google.golang.org/grpc"

	"github.com/fairsem/fairsem/internal/gate"
	"github.com/fairsem/fairsem/internal/held"
)

// UnaryServerInterceptor returns an interceptor that handles the unary calls that limit lets through, and refuses the others; see
// the package. The limit must be nil if Options.LimitOf is set. The error is [fairsem.ErrInvalid].
//
// It belongs behind interceptors that authenticate: calls that they refuse then take no unit.
func UnaryServerInterceptor(limit Limit, opts Options) (grpc.UnaryServerInterceptor, error) {
	i, err := newInterceptor("UnaryServerInterceptor", limit, opts, gate.DefaultMaxWait)
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context, req any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
		loan := new(held.Loan)
		if err := i.enter(ctx, info.FullMethod, loan); err != nil {
			return nil, publish(err)
		}
		defer loan.End()
		if loan.Permit == nil {
			resp, err := handler(ctx, req)
			return resp, publish(err)
		}
		resp, err := handler(&loan.Scope, req)
		return resp, publish(explain(loan, err))
	}, nil
}

// StreamServerInterceptor is [UnaryServerInterceptor] for streams.
func StreamServerInterceptor(limit Limit, opts Options) (grpc.StreamServerInterceptor, error) {
	i, err := newInterceptor("StreamServerInterceptor", limit, opts, gate.DefaultMaxWait)
	if err != nil {
		return nil, err
	}
	return func(srv any, stream grpc.ServerStream, info *grpc.StreamServerInfo, handler grpc.StreamHandler) error {
		s := &serverStream{ServerStream: stream}
		if err := i.enter(stream.Context(), info.FullMethod, &s.loan); err != nil {
			return publish(err)
		}
		defer s.loan.End()
		if s.loan.Permit == nil {
			return publish(handler(srv, stream))
		}
		s.received = make(chan receipt, 1)
		return publish(explain(&s.loan, handler(srv, s)))
	}, nil
}

// serverStream is a stream that ends with its permit. gRPC ends a RecvMsg of a server only when the handler has returned, and the
// handler may return only after RecvMsg. So another goroutine receives.
type serverStream struct {
	grpc.ServerStream
	loan     held.Loan
	received chan receipt
}

// receipt is the outcome of receiving a message.
type receipt struct {
	err      error
	panicked any // by a codec
}

func (s *serverStream) Context() context.Context { return &s.loan.Scope }

// SendMsg sends nothing after the permit has ended.
func (s *serverStream) SendMsg(m any) error {
	if err := s.lost(); err != nil {
		return err
	}
	return explain(&s.loan, s.ServerStream.SendMsg(m))
}

// lost returns that the permit has ended, by the clock, too.
func (s *serverStream) lost() error {
	if s.loan.Scope.Err() == nil {
		return nil
	}
	if why := s.loan.Ended(); why != nil {
		return aborted(why)
	}
	if permit := s.loan.Permit.Context(); permit.Err() != nil { // after a context that an interceptor has ended
		return aborted(context.Cause(permit))
	}
	return nil
}

// RecvMsg returns when a message was received, or when the stream or the permit has ended. Only then RecvMsg of the stream below may
// still be under way, until the handler has returned.
func (s *serverStream) RecvMsg(m any) error {
	if err := s.lost(); err != nil {
		return err
	}
	go func() { s.received <- s.receive(m) }() // ends with the stream at the latest
	var got receipt
	select {
	case got = <-s.received:
	case <-s.loan.Scope.Done():
		if err := s.lost(); err != nil {
			return err
		}
		select { // the end of a context that an interceptor has made does not end the stream
		case got = <-s.received:
		case <-s.loan.Permit.Context().Done():
			return s.lost()
		}
	}
	if got.panicked != nil {
		panic(got.panicked) // where the handler is, as without another goroutine
	}
	return explain(&s.loan, got.err)
}

func (s *serverStream) receive(m any) (got receipt) {
	defer func() { got.panicked = recover() }()
	return receipt{err: s.ServerStream.RecvMsg(m)}
}
