package fairsemhttp_test

import (
	"bytes"
	"mime/multipart"
	"net/http"
	"os"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairsem/fairsem"
	"github.com/fairsem/fairsem/fairsemhttp"
)

// net/http removes the files of the request that it has made, and a handler gets another one.
func TestFilesOfAnUploadAreRemoved(t *testing.T) {
	w := newWorld(t)
	files := make(chan string, 1)
	server := w.serve(w.handler(func(_ http.ResponseWriter, r *http.Request) {
		defer close(files)
		assert.NoError(t, r.ParseMultipartForm(1)) // all of it goes into a file
		if f, _, err := r.FormFile("f"); assert.NoError(t, err) {
			defer func() { _ = f.Close() }()
			files <- f.(*os.File).Name()
		}
	}, w.Semaphore(1), fairsemhttp.Options{}))
	var body bytes.Buffer
	form := multipart.NewWriter(&body)
	f, err := form.CreateFormFile("f", "x")
	require.NoError(t, err)
	_, err = f.Write(make([]byte, 64<<10))
	require.NoError(t, err)
	require.NoError(t, form.Close())
	answer, err := http.Post(server.URL, form.FormDataContentType(), &body)
	require.NoError(t, err)
	require.NoError(t, answer.Body.Close())
	file := <-files
	require.NotEmpty(t, file)
	w.Eventually(func() bool { _, err := os.Stat(file); return os.IsNotExist(err) }, "the file stays")
}

// An error of LimitOf is a mistake of the program, whatever it wraps.
func TestLimitOfThatAsksAnotherRedisIsAMistakeWhenThatFails(t *testing.T) {
	w := newWorld(t)
	h := w.handler(hello, nil, fairsemhttp.Options{LimitOf: func(*http.Request) (fairsemhttp.Limit, error) { return nil, fairsem.ErrUnavailable }})
	assert.Equal(t, http.StatusInternalServerError, answer(h, request(t)).StatusCode)
}
