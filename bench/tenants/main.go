// Command tenants draws the units that three customers hold of one limit over time, first come, first served and with tenants,
// from a run on a real Redis: the picture in docs/tenants.md.
package main

import (
	"context"
	"flag"
	"fmt"
	"image/color"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"

	"github.com/fairsem/fairsem"
	"github.com/fairsem/fairsem/internal/clock"
	"github.com/fairsem/fairsem/internal/redistest"
)

const (
	limit   = 12
	callers = 40 // of each customer
	step    = 200 * time.Millisecond
)

// customer has calls waiting from a moment on.
type customer struct {
	name  string
	share int64
	job   time.Duration
	from  int // after so many parts of six of the run
	color color.Color
}

var customers = []customer{
	{"A, jobs of 200 ms", 1, 200 * time.Millisecond, 0, color.RGBA{0x33, 0x66, 0xaa, 0xff}},
	{"B, jobs of 20 ms", 1, 20 * time.Millisecond, 1, color.RGBA{0xee, 0x88, 0x33, 0xff}},
	{"C, jobs of 50 ms, share 2", 2, 50 * time.Millisecond, 3, color.RGBA{0x33, 0x99, 0x66, 0xff}},
}

func main() {
	out := flag.String("out", "tenants.svg", "`file` to write")
	length := flag.Duration("for", 12*time.Second, "how long each of the two runs takes")
	flag.Parse()
	if err := run(*out, *length); err != nil {
		fmt.Fprintln(os.Stderr, "tenants:", err)
		os.Exit(1)
	}
}

func run(out string, length time.Duration) error {
	server, err := redistest.Start()
	if err != nil {
		return err
	}
	defer func() { _ = server.Stop() }() // it has nothing that anybody needs
	var panels [2][]moment
	for i, shared := range []bool{false, true} {
		if panels[i], err = measure(server.Client(), shared, length); err != nil {
			return err
		}
	}
	return write(out, panels)
}

// moment is how many units each customer held, on average, in the step that ended at a time of the run.
type moment struct {
	at   time.Duration
	held []float64
}

func measure(rdb *redis.Client, shared bool, length time.Duration) ([]moment, error) {
	client, err := fairsem.New(rdb, fairsem.Options{})
	if err != nil {
		return nil, err
	}
	defer func() { _ = client.Close() }() // its permits expire
	sem, err := client.Semaphore(fmt.Sprint("tenants-", shared), limit)
	if err != nil {
		return nil, err
	}
	if err := sem.Do(context.Background(), 1, func(context.Context) error { return nil }); err != nil { // after the grace period of a new server
		return nil, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), length)
	defer cancel()
	held := make([]atomic.Int64, len(customers))
	var load sync.WaitGroup
	defer load.Wait()
	for i, c := range customers {
		own := sem
		if shared {
			own = sem.With(fairsem.CallOptions{Tenant: c.name, Share: c.share})
		}
		for range callers {
			load.Go(func() {
				clock.Sleep(ctx, length*time.Duration(c.from)/6)
				for ctx.Err() == nil {
					work(ctx, own, c.job, &held[i])
				}
			})
		}
	}
	return sample(ctx, held), nil
}

// work is one job. The error of a call is that of ctx.
func work(ctx context.Context, sem *fairsem.Semaphore, job time.Duration, held *atomic.Int64) {
	p, err := sem.Acquire(ctx, 1)
	if err != nil {
		return
	}
	held.Add(1)
	clock.Sleep(ctx, job)
	held.Add(-1)
	_ = p.Release(context.WithoutCancel(ctx)) // it expires
}

func sample(ctx context.Context, held []atomic.Int64) (all []moment) {
	for began := time.Now(); ctx.Err() == nil; {
		sum, samples := make([]float64, len(held)), 0.0
		for end := time.Now().Add(step); time.Now().Before(end) && ctx.Err() == nil; samples++ {
			clock.Sleep(ctx, step/40)
			for i := range held {
				sum[i] += float64(held[i].Load())
			}
		}
		for i := range sum {
			sum[i] /= samples
		}
		if ctx.Err() == nil {
			all = append(all, moment{time.Since(began), sum})
		}
	}
	return all
}

func write(out string, panels [2][]moment) error {
	const width, height = 8 * vg.Inch, 5 * vg.Inch
	canvas := vgsvg.New(width, height)
	page := draw.New(canvas)
	for i, title := range []string{"First come, first served", "With tenants"} {
		p, err := stack(title, panels[i])
		if err != nil {
			return err
		}
		if i > 0 {
			p.Legend = plot.NewLegend() // it is that of both
		}
		half := page.Rectangle.Size().Y / 2
		p.Draw(draw.Crop(page, 0, 0, half*vg.Length(1-i), -half*vg.Length(i)))
	}
	file, err := os.Create(out)
	if err != nil {
		return err
	}
	if _, err := canvas.WriteTo(file); err != nil {
		_ = file.Close() // the error of the write is the one to report
		return err
	}
	return file.Close()
}

// stack draws the units of the customers on top of each other.
func stack(title string, steps []moment) (*plot.Plot, error) {
	p := plot.New()
	p.Title.Text, p.X.Label.Text, p.Y.Label.Text = title, "seconds", "units"
	p.Y.Min, p.Y.Max, p.X.Min = 0, limit+6, 0 // with room for the legend
	p.Legend.Left, p.Legend.Top = true, true
	below := make([]float64, len(steps))
	for i, c := range customers {
		var upper, area plotter.XYs
		for n, s := range steps {
			upper = append(upper, plotter.XY{X: s.at.Seconds(), Y: below[n] + s.held[i]})
		}
		for n := len(steps) - 1; n >= 0; n-- {
			area = append(area, plotter.XY{X: upper[n].X, Y: below[n]})
			below[n] = upper[n].Y
		}
		polygon, err := plotter.NewPolygon(append(upper, area...))
		if err != nil {
			return nil, err
		}
		polygon.Color, polygon.Width = c.color, 0
		p.Add(polygon)
		p.Legend.Add(c.name, polygon)
	}
	return p, nil
}
