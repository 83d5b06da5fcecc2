#!/bin/sh
# Tells the coordinator where it is and who its workers are: register-nodes COORDINATOR WORKER...
# Run again it changes nothing. psql takes user, database and password from PGUSER, PGDATABASE and PGPASSWORD.
set -eu

coordinator=$1
shift

ask() {
    psql --host "$coordinator" --no-psqlrc --quiet --set ON_ERROR_STOP=1 --set host="$1" --file -
}

# The extension was made by the image's own script, in the database that it was started with.
echo "SELECT citus_set_coordinator_host(:'host', 5432);" | ask "$coordinator"
for worker in "$@"; do
    echo "SELECT citus_add_node(:'host', 5432);" | ask "$worker"
done
echo "SELECT nodename, isactive FROM pg_dist_node ORDER BY groupid;" | ask "$coordinator"
