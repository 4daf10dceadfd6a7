// Package otlp_test exports with OTLP to a receiver, another process. Only this test imports exporters and gRPC.
package otlp_test

import (
	"context"
	"errors"
	"os"
	"testing"

	"github.com/fairsem/fairsem/internal/redistest"
	"github.com/fairsem/fairsem/internal/worldtest"
)

func TestMain(m *testing.M) {
	worldtest.Main[order](func() int { return redistest.Main(m) })
}

// order is the task of one of two processes: the program, or the receiver of its exports.
type order struct {
	Endpoint string            // of the receiver; empty: be the receiver
	Redis    string            // of the program
	Env      map[string]string // of the program
}

// Work does the order.
func (o order) Work(ctx context.Context) error {
	if o.Endpoint == "" {
		return receive(ctx, os.Stdout)
	}
	for key, value := range o.Env {
		if err := os.Setenv(key, value); err != nil {
			return err
		}
	}
	p, err := startProgram(ctx, o.Redis)
	if err != nil {
		return err
	}
	return errors.Join(p.run(ctx), p.stop(ctx))
}
