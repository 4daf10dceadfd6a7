package main

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"time"
)

// A file of an archive. Its name has slashes.
type file struct {
	name string
	text []byte
	mode int64
}

// tarred is a .tar.gz of files, with one time for all of them and no owner.
func tarred(files []file, at time.Time) ([]byte, error) {
	var out bytes.Buffer
	packer := gzip.NewWriter(&out)
	archive := tar.NewWriter(packer)
	for _, f := range files {
		head := &tar.Header{Typeflag: tar.TypeReg, Name: f.name, Size: int64(len(f.text)), Mode: f.mode, ModTime: at, Format: tar.FormatUSTAR}
		if err := archive.WriteHeader(head); err != nil {
			return nil, err
		}
		if _, err := archive.Write(f.text); err != nil {
			return nil, err
		}
	}
	if err := archive.Close(); err != nil {
		return nil, err
	}
	err := packer.Close()
	return out.Bytes(), err
}

// zipped is the same as a .zip.
func zipped(files []file, at time.Time) ([]byte, error) {
	var out bytes.Buffer
	archive := zip.NewWriter(&out)
	for _, f := range files {
		to, err := archive.CreateHeader(&zip.FileHeader{Name: f.name, Method: zip.Deflate, Modified: at.UTC()})
		if err != nil {
			return nil, err
		}
		if _, err := to.Write(f.text); err != nil {
			return nil, err
		}
	}
	err := archive.Close()
	return out.Bytes(), err
}
