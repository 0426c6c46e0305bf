#!/bin/sh
# Keeps the secrets of the installation. The originals are in /secrets/own, which no other service sees; each of the other folders
# is the volume of one service, and its files are readable for the user of that service only.
#
#   secrets.sh generate         generates what is missing; certificates also if they end soon or the host name changed
#   secrets.sh show NAME        prints root-keys, ca.pem or another original
#   secrets.sh store NAME       stores standard input as mail-password, or as service.pem: the certificate, its chain and its key
set -eu
umask 077
cd /secrets/own

node_user=65532:65532
proxy_user=65532:65532
mail_user=65532:65532
database_user=postgres:postgres

# Writes standard input to a file that appears as a whole.
write() { cat >"$1.new" && mv "$1.new" "$1"; }

# give USER FILE: writes standard input to a file that only USER can read.
give() {
    rm -f "$2.new"
    cat >"$2.new"
    chmod 0400 "$2.new"
    chown "$1" "$2.new"
    mv -f "$2.new" "$2"
}

# make_authority: the authority for names inside this installation, and of the proxy until you store a certificate.
make_authority() {
    cat >/tmp/authority.cnf <<END
[req]
distinguished_name = name
prompt = no
x509_extensions = authority
[name]
CN = serviced on $(date -u +%Y-%m-%d)
[authority]
basicConstraints = critical, CA:TRUE
keyUsage = critical, keyCertSign, cRLSign
subjectKeyIdentifier = hash
END
    openssl req -x509 -config /tmp/authority.cnf -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -noenc -days 3650 \
        -keyout ca.key.new -out ca.pem.new 2>/dev/null
    mv ca.key.new ca.key
    mv ca.pem.new ca.pem
}

# certify NAME HOST: makes NAME.pem and NAME.key, unless they are for HOST and valid for 30 days more.
certify() {
    if [ -s "$1.key" ] && openssl x509 -in "$1.pem" -noout -checkend 2592000 >/dev/null &&
        openssl x509 -in "$1.pem" -noout -checkhost "$2" | grep -q 'does match'; then
        return
    fi
    cat >/tmp/certificate.cnf <<END
[req]
distinguished_name = name
prompt = no
x509_extensions = server
[name]
CN = $2
[server]
basicConstraints = critical, CA:FALSE
keyUsage = critical, digitalSignature
extendedKeyUsage = serverAuth
subjectAltName = DNS:$2
authorityKeyIdentifier = keyid
END
    openssl req -x509 -config /tmp/certificate.cnf -CA ca.pem -CAkey ca.key -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 \
        -noenc -days 397 -keyout "$1.key.new" -out "$1.pem.new" 2>/dev/null
    mv "$1.key.new" "$1.key"
    mv "$1.pem.new" "$1.pem"
    echo "Made a certificate for $2."
}

# connection ROLE: the URL of the database.
connection() {
    echo "postgres://$1:$(cat "$1-password")@database/service?sslmode=verify-full&sslrootcert=/run/service/ca.pem"
}

generate() {
    [ -s root-keys ] || { echo "1:$(openssl rand -base64 32)" | write root-keys && echo "Made the root key. Keep a copy of it."; }
    for role in serviced serviced_owner; do
        [ -s "$role-password" ] || openssl rand -hex 32 | write "$role-password"
    done
    [ -s ca.key ] && [ -s ca.pem ] || make_authority
    [ -e mail-password ] || : | write mail-password
    certify database database
    certify mail mail
    certify proxy "$SERVICE_HOST"
    hand_out
    echo "All secrets are there."
}

# Copies the originals to the services.
hand_out() {
    for file in root-keys ca.pem mail-password; do give "$node_user" "/secrets/node/$file" <"$file"; done
    connection serviced | give "$node_user" /secrets/node/database-url
    connection serviced_owner | give "$node_user" /secrets/owner/database-url
    give "$database_user" /secrets/owner/ca.pem <ca.pem
    give "$database_user" /secrets/owner/pg_service.conf <<END
[owner]
host=database
dbname=service
user=serviced_owner
password=$(cat serviced_owner-password)
sslmode=verify-full
sslrootcert=/run/owner/ca.pem
END
    for file in database.pem database.key serviced-password serviced_owner-password; do
        give "$database_user" "/secrets/database/$file" <"$file"
    done
    for file in mail.pem mail.key; do give "$mail_user" "/secrets/mail/$file" <"$file"; done
    if [ -s service.pem ]; then
        # Caddy finds the certificate and the key in one file.
        give "$proxy_user" /secrets/proxy/service.pem <service.pem
        give "$proxy_user" /secrets/proxy/service.key <service.pem
    else
        give "$proxy_user" /secrets/proxy/service.pem <proxy.pem
        give "$proxy_user" /secrets/proxy/service.key <proxy.key
    fi
}

case "${1:-} ${2:-}" in
"generate ") generate ;;
"show "?*) cat "$2" ;;
"store mail-password" | "store service.pem")
    write "$2"
    hand_out
    ;;
*) echo "secrets.sh generate | show NAME | store mail-password | store service.pem" >&2 && exit 2 ;;
esac
