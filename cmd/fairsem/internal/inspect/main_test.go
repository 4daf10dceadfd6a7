package inspect_test

import (
	"os"
	"testing"

	"github.com/fairsem/fairsem/internal/redistest"
)

func TestMain(m *testing.M) { os.Exit(redistest.Main(m)) }
