package fairsem

import "github.com/fairsem/fairsem/internal/bridge"

func init() {
	bridge.WithoutMaxWait = withoutMaxWait
}

func withoutMaxWait(limit any) any {
	patient := func(s *Semaphore) *Semaphore {
		o := s.opts
		o.MaxWait = 0
		return s.With(o)
	}
	switch l := limit.(type) {
	case *Semaphore:
		return patient(l)
	case *Mutex:
		return newMutex(patient(l.sem))
	case *Limiter:
		return newLimiter(patient(l.semaphore))
	}
	return limit
}
