package worldtest

import "errors"

// InFour calls round that often in each of four goroutines, until the first error of each.
func InFour(rounds int, round func() error) (err error) {
	failures := make(chan error, 4)
	for range cap(failures) {
		go func() { // ends after its rounds; failures has room for all
			var err error
			for n := 0; n < rounds && err == nil; n++ {
				err = round()
			}
			failures <- err
		}()
	}
	for range cap(failures) {
		err = errors.Join(err, <-failures)
	}
	return err
}
