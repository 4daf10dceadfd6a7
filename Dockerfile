# docker build -t fairsem .       or: buildah build -t fairsem .
# docker run --rm -e REDIS_URL fairsem ls
#
# The same command as in the archives of make binaries, and nothing else but certificates: fairsem run finds no other program here.
# An image of yours gets it by COPY --from=fairsem /usr/bin/fairsem /usr/bin/
#
# The build needs BuildKit, in Debian the package docker-buildx, and .git: it takes the last commit, whatever was changed since, and go has
# the version from there.

FROM --platform=$BUILDPLATFORM golang:1.26 AS build
WORKDIR /src
COPY . .
ARG TARGETOS TARGETARCH
RUN cd release && go run . binaries -targets "${TARGETOS:-$(go env GOOS)}/${TARGETARCH:-$(go env GOARCH)}" -out /dist
WORKDIR /image/usr/share/doc/fairsem
RUN tar -xzf /dist/*.tar.gz \
 && mkdir -p /image/etc/ssl/certs /image/usr/bin \
 && mv fairsem /image/usr/bin/ && rm -r completions man1 \
 && cp /etc/ssl/certs/ca-certificates.crt /image/etc/ssl/certs/ \
 && echo 'fairsem:x:65532:65532::/:' > /image/etc/passwd

FROM scratch
COPY --from=build /image /
USER 65532:65532
ENTRYPOINT ["fairsem"]
