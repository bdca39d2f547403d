package main

// checkFiles reads the files that the settings name, and returns an error for each that
// serve could not use. It opens no connection.
func (s *settings) checkFiles() error {
	var found problems
	_, err := openCertificates(s.tls)
	found.add(err)
	found.add(s.nats.checkFiles())
	if found.err() == nil {
		_, err = s.nats.options() // which reads the seed of --nats-nkey
		found.add(err)
	}
	return found.err()
}
