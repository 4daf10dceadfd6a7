package dial

import (
	"os"
	"testing"

	"github.com/redis/go-redis/v9/logging"

	"github.com/fairsem/fairsem/internal/redistest"
)

func TestMain(m *testing.M) {
	logging.Disable() // as the command does
	code := redistest.Main(m)
	for _, s := range guards {
		_ = s.Stop() // leftovers are in the temporary folder
	}
	os.Exit(code)
}
