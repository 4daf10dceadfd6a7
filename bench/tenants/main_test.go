package main

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestThePictureHasBothRunsAndEveryCustomer(t *testing.T) {
	t.Parallel()
	out := filepath.Join(t.TempDir(), "tenants.svg")
	require.NoError(t, run(out, 2*time.Second))
	svg, err := os.ReadFile(out)
	require.NoError(t, err)
	for _, want := range []string{"First come, first served", "With tenants", customers[0].name, customers[1].name, customers[2].name} {
		assert.Contains(t, string(svg), want)
	}
}
