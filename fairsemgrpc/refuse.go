package fairsemgrpc

import (
	"context"
	"errors"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/fairsem/fairsem"
	"github.com/fairsem/fairsem/internal/gate"
	"github.com/fairsem/fairsem/internal/held"
)

// refusal is an error with a status, as a client returns it.
type refusal struct {
	status *status.Status
	error
}

// GRPCStatus is the method by which gRPC finds the status of an error.
func (r *refusal) GRPCStatus() *status.Status { return r.status }

func (r *refusal) Unwrap() error { return r.error }

// public is a refusal as a server returns it. If an interceptor that comes before wraps it, gRPC sends its text, which so must have no
// part of the error.
type public struct{ *refusal }

func (p public) Error() string { return p.status.Message() }

// publish returns the form of err that an interceptor of a server may return.
func publish(err error) error {
	if r, is := err.(*refusal); is { //nolint:errorlint // an error around it is the handler's
		return public{r}
	}
	return err
}

// refuse returns the error of a call that was not let through.
func refuse(ctx context.Context, limit Limit, err error) error {
	if ended := gate.Ended(ctx); ended != nil {
		return &refusal{status.FromContextError(ended), err}
	}
	s := statusOf(limit, err)
	if retry := gate.RetryAfter(ctx, limit, err); retry > 0 {
		detailed, failed := s.WithDetails(&errdetails.RetryInfo{RetryDelay: durationpb.New(retry)})
		if failed == nil { // it fails for OK alone
			s = detailed
		}
	}
	return &refusal{s, err}
}

func statusOf(limit Limit, err error) *status.Status {
	switch gate.VerdictOf(err) {
	case gate.TooHeavy:
		return status.New(codes.ResourceExhausted, "the call weighs more than a limit")
	case gate.Busy:
		if _, rate := limit.(*fairsem.Limiter); rate {
			return status.New(codes.ResourceExhausted, "a rate limit is exceeded")
		}
		return status.New(codes.ResourceExhausted, "all units of a limit are in use")
	case gate.Closing:
		return status.New(codes.Unavailable, "the process that checks a limit is shutting down")
	case gate.Unavailable:
		return status.New(codes.Unavailable, "a limit cannot be checked")
	}
	return status.New(codes.Internal, "a limit is not set up as it should be")
}

// aborted returns the error of a call whose permit has ended, for that reason.
func aborted(why error) error {
	return &refusal{status.New(codes.Aborted, "the permit of the call ended while it was under way"), why}
}

// explain replaces an error of a call by the reason, if the call failed because its permit was lost, or its Client closed. An error that
// has another status stays, such as that of another limit.
func explain(loan *held.Loan, err error) error {
	code := status.Code(err)
	canceled := code == codes.Canceled || code == codes.Unknown && (errors.Is(err, context.Canceled) || held.IsEnd(err))
	if why := loan.Ended(); canceled && why != nil {
		return aborted(why)
	}
	return err
}
