package fairsempgx_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairsem/fairsem"
	"github.com/fairsem/fairsem/internal/redistest"
)

// statement returns a statement of docs/fencing.md.
func statement(t *testing.T, name string) string {
	t.Helper()
	return snippet(t, "sql", name)
}

// snippet returns the code in docs/fencing.md after the comment with its language and name.
func snippet(t *testing.T, language, name string) string {
	t.Helper()
	page, err := os.ReadFile("../docs/fencing.md")
	require.NoError(t, err)
	found := regexp.MustCompile("(?s)<!-- " + language + ": " + name + " -->\n```" + language + "\n(.*?)```").FindSubmatch(page)
	require.NotNil(t, found, name)
	return string(found[1])
}

// fences is a database of four slots, and a semaphore whose permits have their numbers.
type fences struct {
	*world
	db    *pgxpool.Pool
	slots *fairsem.Semaphore
}

func newFences(t *testing.T) *fences {
	t.Helper()
	w := newWorld(t)
	// A schema of its own: the statements of the page name the table without one.
	schema := pgx.Identifier{w.LimitName[max(0, len(w.LimitName)-60):]}.Sanitize()
	_, err := w.admin.Exec(t.Context(), "CREATE SCHEMA "+schema+" AUTHORIZATION app")
	require.NoError(t, err)
	c := w.config(4)
	c.ConnConfig.RuntimeParams["search_path"] = schema
	f := &fences{w, w.open(c), w.Semaphore(4).With(fairsem.CallOptions{Numbered: true})}
	_, err = f.db.Exec(t.Context(), statement(t, "table"))
	require.NoError(t, err)
	return f
}

func (f *fences) acquire() *fairsem.Permit {
	f.Helper()
	p, err := f.slots.Acquire(f.Context(), 1)
	require.NoError(f, err)
	return p
}

func TestSlotRefusesALateHolderOfItsNumberAndNoOther(t *testing.T) {
	f := newFences(t)
	write := func(p *fairsem.Permit, state string) bool {
		tag, err := f.db.Exec(t.Context(), statement(t, "write"), p.Number(), p.Token(), state)
		require.NoError(t, err)
		return tag.RowsAffected() == 1
	}
	first, second := f.acquire(), f.acquire()
	assert.True(t, write(first, "by the first"))

	require.NoError(t, f.slots.Evict(t.Context(), first.ID())) // as when it was paused for longer than its lease
	third := f.acquire()
	require.Equal(t, first.Number(), third.Number())
	assert.True(t, write(third, "by the third"))
	assert.False(t, write(first, "too late"))
	assert.True(t, write(third, "by the third again"))
	require.Less(t, second.Token(), third.Token())
	assert.True(t, write(second, "by the second"), "a lower token with another number")

	var state string
	require.NoError(t, f.db.QueryRow(t.Context(), "SELECT state FROM slot WHERE number = $1", first.Number()).Scan(&state))
	assert.Equal(t, "by the third again", state)
}

// A command that fairsem run --numbered started has the number and the token in its environment.
func TestScriptOfACommandIsFencedToo(t *testing.T) {
	redistest.Program(t, "psql")
	f := newFences(t)
	to := f.db.Config().ConnConfig
	write := func(p *fairsem.Permit, state string) string {
		cmd := exec.CommandContext(t.Context(), "sh", "-c", snippet(t, "sh", "psql"), "write.sh", state)
		cmd.Env = append(os.Environ(), "PGHOST="+to.Host, fmt.Sprint("PGPORT=", to.Port), "PGUSER="+to.User, "PGDATABASE="+to.Database,
			"PGOPTIONS=-c search_path="+to.RuntimeParams["search_path"],
			fmt.Sprint("FAIRSEM_NUMBER=", p.Number()), fmt.Sprint("FAIRSEM_TOKEN=", p.Token()))
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, "%s", out)
		return string(out)
	}
	first := f.acquire()
	assert.Equal(t, "written\n", write(first, "it's the first"))
	require.NoError(t, f.slots.Evict(t.Context(), first.ID()))
	second := f.acquire()
	require.Equal(t, first.Number(), second.Number())
	assert.Equal(t, "written\n", write(second, "the second"))
	assert.Empty(t, write(first, "too late"))
}

var errTooLate = errors.New("too late: another process has had this number since")

// fenced is the code of docs/fencing.md.
func fenced(ctx context.Context, db *pgxpool.Pool, permit *fairsem.Permit, write func(pgx.Tx) error) error {
	return pgx.BeginFunc(ctx, db, func(tx pgx.Tx) error {
		for _, number := range permit.Numbers() { // in ascending order: no deadlocks
			moved, err := tx.Exec(ctx, moveFence, number, permit.Token())
			if err != nil {
				return err
			}
			if moved.RowsAffected() == 0 {
				return errTooLate // rolls back
			}
		}
		return write(tx)
	})
}

const moveFence = `UPDATE slot SET token = $2 WHERE number = $1 AND token <= $2`

// The late holder begins while the transaction of the next one is open: it waits for that, and is refused then.
func TestFenceRefusesALateHolderThatWritesElsewhereInTheSameTransaction(t *testing.T) {
	f := newFences(t)
	assert.Equal(t, moveFence+"\n", statement(t, "fence"))
	_, err := f.db.Exec(t.Context(), "CREATE TABLE log (entry text)")
	require.NoError(t, err)
	entry := func(p *fairsem.Permit, text string, inBetween func()) error {
		return fenced(t.Context(), f.db, p, func(tx pgx.Tx) error {
			inBetween()
			_, err := tx.Exec(t.Context(), "INSERT INTO log VALUES ($1)", text)
			return err
		})
	}
	first := f.acquire()
	require.NoError(t, entry(first, "first", func() {}))
	require.NoError(t, f.slots.Evict(t.Context(), first.ID()))
	second := f.acquire()
	require.Equal(t, first.Numbers(), second.Numbers())

	late := make(chan error, 1)
	require.NoError(t, entry(second, "second", func() {
		go func() { late <- entry(first, "late", func() {}) }() // ends with this transaction
		f.Eventually(func() bool { return f.blocked() == 1 }, "the late holder does not wait for the row")
	}))
	assert.ErrorIs(t, <-late, errTooLate)

	rows, err := f.db.Query(t.Context(), "SELECT entry FROM log")
	require.NoError(t, err)
	log, err := pgx.CollectRows(rows, pgx.RowTo[string])
	require.NoError(t, err)
	assert.Equal(t, []string{"first", "second"}, log)
}

// blocked returns how many sessions of the world wait for a lock.
func (f *fences) blocked() (n int) {
	f.Helper()
	require.NoError(f, f.admin.QueryRow(f.Context(),
		"SELECT count(*) FROM pg_stat_activity WHERE application_name = $1 AND wait_event_type = 'Lock'", f.application()).Scan(&n))
	return n
}
