package fairsemgrpc

import (
	"context"
	"errors"
	"io"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/metadata"

	"github.com/fairsem/fairsem/internal/held"
)

// UnaryClientInterceptor returns an interceptor that sends the unary calls that limit lets through; see the package. The limit
// must be nil if Options.LimitOf is set. OnRefused is not used. The error is [fairsem.ErrInvalid].
//
// A call waits for its connection, and is retried by gRPC, while it holds its units. An interceptor that retries counts each attempt as
// a call if it comes before this one, and all of them as one if it comes after it.
func UnaryClientInterceptor(limit Limit, opts Options) (grpc.UnaryClientInterceptor, error) {
	i, err := newClientInterceptor("UnaryClientInterceptor", limit, opts)
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoker grpc.UnaryInvoker, opts ...grpc.CallOption) error {
		loan := new(held.Loan)
		if err := i.enter(ctx, method, loan); err != nil {
			return err
		}
		defer loan.End()
		if loan.Permit == nil {
			return invoker(ctx, method, req, reply, cc, opts...)
		}
		return explain(loan, invoker(&loan.Scope, method, req, reply, cc, opts...))
	}, nil
}

// StreamClientInterceptor is [UnaryClientInterceptor] for streams. If an interceptor that comes after it makes a stream of its own, or does
// not pass on the CallOptions, the end of the ClientConn is not noticed.
func StreamClientInterceptor(limit Limit, opts Options) (grpc.StreamClientInterceptor, error) {
	i, err := newClientInterceptor("StreamClientInterceptor", limit, opts)
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn, method string, streamer grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
		s := &clientStream{oneResponse: !desc.ServerStreams}
		if err := i.enter(ctx, method, &s.loan); err != nil {
			return nil, err
		}
		if s.loan.Permit == nil {
			s.loan.End()
			return streamer(ctx, desc, cc, method, opts...)
		}
		return s.open(desc, cc, method, streamer, opts)
	}, nil
}

func newClientInterceptor(name string, limit Limit, opts Options) (*interceptor, error) {
	opts.OnRefused = nil
	return newInterceptor(name, limit, opts, 0)
}

// clientStream is a stream that holds its permit until it ends.
type clientStream struct {
	grpc.ClientStream
	loan        held.Loan
	oneResponse bool
	orphaned    sync.Once
}

func (s *clientStream) open(desc *grpc.StreamDesc, cc *grpc.ClientConn, method string, streamer grpc.Streamer, opts []grpc.CallOption) (grpc.ClientStream, error) {
	opened := false
	defer func() {
		if !opened { // also after a panic
			s.loan.End()
		}
	}()
	context.AfterFunc(&s.loan.Scope, s.loan.End) // the stream may be one that an inner interceptor makes
	if cc != nil {
		opts = append(opts[:len(opts):len(opts)], grpc.OnFinish(s.finished(cc)))
	}
	inner, err := streamer(&s.loan.Scope, desc, cc, method, opts...)
	if err != nil || inner == nil {
		return nil, explain(&s.loan, err)
	}
	s.ClientStream, opened = inner, true
	return s, nil
}

// finished returns the function that gRPC calls once when a stream has ended, also if nobody reads it. An inner interceptor that retries
// can open several: the end of one is that of s only if no other can follow, which is when the context or the connection ends, now or
// later. open waits for the context.
func (s *clientStream) finished(cc *grpc.ClientConn) func(error) {
	return func(error) {
		s.orphaned.Do(func() {
			go s.endWith(cc) // ends with the loan, which is soon if the stream is read
		})
	}
}

// endWith ends the loan when the connection is closed.
func (s *clientStream) endWith(cc *grpc.ClientConn) {
	for state := cc.GetState(); state != connectivity.Shutdown; state = cc.GetState() {
		if !cc.WaitForStateChange(&s.loan.Scope, state) {
			return
		}
	}
	s.loan.End()
}

func (s *clientStream) RecvMsg(m any) error {
	err := s.ClientStream.RecvMsg(m)
	if err == nil && !s.oneResponse {
		return nil
	}
	defer s.loan.End()
	return explain(&s.loan, err)
}

func (s *clientStream) SendMsg(m any) error {
	err := s.ClientStream.SendMsg(m)
	if err == nil || errors.Is(err, io.EOF) { // RecvMsg has the error
		return err
	}
	defer s.loan.End()
	return explain(&s.loan, err)
}

func (s *clientStream) Header() (metadata.MD, error) {
	header, err := s.ClientStream.Header()
	if err == nil {
		return header, nil
	}
	defer s.loan.End()
	return header, explain(&s.loan, err)
}
