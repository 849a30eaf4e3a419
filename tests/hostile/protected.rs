//! Files of the host, and files that decide what runs, are out of reach.
