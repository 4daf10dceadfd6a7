package fairsemgrpc

import (
	"context"

	"google.golang.org/grpc"
	"google.golang.org/grpc/status"

	"github.com/fairsem/fairsem/internal/gate"
	"github.com/fairsem/fairsem/internal/held"
)

// UnaryServerInterceptor returns an interceptor that handles the unary calls that limit lets through, and refuses the others; see
// the package. The limit must be nil if Options.LimitOf is set. The error is [fairsem.ErrInvalid].
//
// It belongs behind interceptors that authenticate: what they refuse then takes no unit.
func UnaryServerInterceptor(limit Limit, opts Options) (grpc.UnaryServerInterceptor, error) {
	i, err := newInterceptor("UnaryServerInterceptor", limit, opts, gate.DefaultMaxWait)
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context, req any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
		loan := new(held.Loan)
		if err := i.enter(ctx, info.FullMethod, loan); err != nil {
			return nil, err
		}
		defer loan.End()
		if loan.Permit == nil {
			return handler(ctx, req)
		}
		resp, err := handler(&loan.Scope, req)
		return resp, explain(loan, err)
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
			return err
		}
		defer s.loan.End()
		if s.loan.Permit == nil {
			return handler(srv, stream)
		}
		if info.IsClientStream { // else what the client sends has come
			s.receiver = make(chan receipt)
		}
		return explain(&s.loan, handler(srv, s))
	}, nil
}

// serverStream is a stream that ends with its permit. gRPC ends a RecvMsg of a server only when the handler has returned, and the
// handler may return only after RecvMsg. So where the client sends a stream, another goroutine receives.
type serverStream struct {
	grpc.ServerStream
	loan      held.Loan
	receiver  chan receipt // to the goroutine that receives, and back; nil: there is none
	receiving bool         // it has started
}

// receipt is a message and what became of it.
type receipt struct {
	message  any
	err      error
	panicked any // by a codec
}

func (s *serverStream) Context() context.Context { return &s.loan.Scope }

// SendMsg sends nothing after the permit was lost.
func (s *serverStream) SendMsg(m any) error {
	if s.loan.Scope.Err() != nil {
		if err := lost(&s.loan); err != nil {
			return err
		}
	}
	return explain(&s.loan, s.ServerStream.SendMsg(m))
}

// RecvMsg returns when a message was received, the stream has ended, or the permit was lost.
func (s *serverStream) RecvMsg(m any) error {
	if s.receiver == nil {
		return explain(&s.loan, s.ServerStream.RecvMsg(m))
	}
	if !s.receiving { // calls of RecvMsg are not concurrent
		s.receiving = true
		go s.receive() // ends with the scope, and with the RecvMsg that it is in: at the latest when the stream has ended
	}
	select {
	case s.receiver <- receipt{message: m}:
	case <-s.loan.Scope.Done():
		return s.over()
	}
	select {
	case got := <-s.receiver:
		if got.panicked != nil {
			panic(got.panicked) // where the handler is, as without another goroutine
		}
		return got.err
	case <-s.loan.Scope.Done():
		return s.over()
	}
}

// over returns the error of a stream whose scope has ended.
func (s *serverStream) over() error {
	if err := lost(&s.loan); err != nil {
		return err
	}
	return status.FromContextError(s.loan.Scope.Err()).Err()
}

func (s *serverStream) receive() {
	for {
		select {
		case wanted := <-s.receiver:
			got := s.receiveOne(wanted.message)
			select {
			case s.receiver <- got:
			case <-s.loan.Scope.Done():
				return
			}
		case <-s.loan.Scope.Done():
			return
		}
	}
}

func (s *serverStream) receiveOne(m any) (got receipt) {
	defer func() { got.panicked = recover() }()
	return receipt{err: s.ServerStream.RecvMsg(m)}
}
