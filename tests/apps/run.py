#!/usr/bin/env python3
"""Runs the complete migration histories of real applications against a publisher whose subscription is live.

    run.py --bindir DIR [--port N] [--options JSON] [--keep] [APPLICATION...]

Applications come from Debian packages (applications() says which) and are run as they are. After each migration every table gets rows;
the subscription must follow without a stop, and at the end of each application full contents, catalogs and pg_dump's schema
of both sides must be equal. Django's are then migrated back to nothing as well. Prints TAP.
"""
import argparse
import collections
import difflib
import json
import os
import shutil
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "model"))
import servers  # noqa: E402

TOOLS = os.path.join(HERE, "..", "tools")
DJANGO_APPS = ["django.contrib.admin", "django.contrib.auth", "django.contrib.contenttypes", "django.contrib.sessions", "django.contrib.messages",
               "django.contrib.sites", "django.contrib.flatpages", "django.contrib.redirects", "django.contrib.staticfiles"]
DJANGO_MORE = ["rest_framework", "rest_framework.authtoken", "django_gravatar", "compressor", "haystack", "django_extensions", "django_q", "allauth",
               "allauth.account", "allauth.socialaccount", "django_mailman3", "hyperkitty", "postorius"]


class Fault(Exception):
    pass


class Target:
    """A database of its own on both servers, and what is done to it."""

    def __init__(self, pair, database, options):
        self.pub, self.sub, self.database, self.options = pair.publisher, pair.subscriber, database, options
        self.folder = tempfile.mkdtemp(prefix="app-", dir=pair.folder)
        self.steps = 0

    def __enter__(self):
        for server in (self.pub, self.sub):
            server.run("postgres", 'CREATE DATABASE "%s"' % self.database)
            server.run(self.database, "CREATE EXTENSION schemasync")
        self.pub.run(self.database, "CREATE PUBLICATION app FOR ALL TABLES")
        self.sub.run(self.database, "SELECT schemasync_create_subscription('app', '%s', ARRAY['app'], options => '%s')" % (
            self.pub.conninfo(self.database), self.options))
        self.wait()
        return self

    def __exit__(self, *_):
        self.sub.run(self.database, "SELECT schemasync_drop_subscription('app')", check=False)
        for server in (self.sub, self.pub):
            server.run("postgres", 'DROP DATABASE IF EXISTS "%s" WITH (FORCE)' % self.database, check=False)

    def url(self, scheme="postgresql+psycopg2"):
        return "%s://postgres@/%s?host=%s&port=%d" % (scheme, self.database, self.pub.socket, self.pub.port)

    def file(self, name, text):
        path = os.path.join(self.folder, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as f:
            f.write(text)
        return path

    def command(self, *arguments, **more):
        """Runs a command of the application; a migration that fails on the publisher is no fault of the subscriber."""
        env = dict(servers.clean_environment(), HOME=self.folder, **more)
        done = subprocess.run(arguments, cwd=self.folder, env=env, capture_output=True, text=True, errors="replace", timeout=900)
        if done.returncode != 0:
            raise Fault("%s failed:\n%s" % (" ".join(arguments), (done.stdout + done.stderr)[:2000]))
        self.steps += 1
        return done.stdout

    def fill(self):
        """Gives every table on the publisher a few rows, as far as its constraints allow."""
        self.pub.run(self.database, open(os.path.join(HERE, "fill.sql"), encoding="utf-8").read())

    def empty(self):
        """Takes the rows away again, which a migration of the application may not be made for."""
        self.pub.run(self.database, "DO $$ DECLARE t text; BEGIN FOR t IN SELECT oid::pg_catalog.regclass FROM pg_catalog.pg_class "
                     "WHERE relkind = 'r' AND relnamespace = 'public'::pg_catalog.regnamespace AND relname NOT LIKE ALL "
                     "('{%migrations,auth_permission,django_content_type}') LOOP EXECUTE 'TRUNCATE ' || t || ' CASCADE'; END LOOP; END $$")

    def wait(self, what="the start"):
        lsn = self.pub.run(self.database, "SELECT pg_current_wal_lsn()").strip()
        fine, _, errors = self.sub.try_run(self.database, "SELECT schemasync_wait('app', '%s', interval '100 s')" % lsn)
        if not fine:
            raise Fault("after %s the subscriber did not follow: %s\n%s" % (what, errors, self.sub.run(
                self.database, "SELECT state, last_error FROM schemasync_subscriptions; SELECT pg_catalog.jsonb_pretty("
                "pg_catalog.jsonb_strip_nulls(pg_catalog.to_jsonb(r))) FROM schemasync_refusals r WHERE status = 'open'")))

    def compare(self, what):
        self.wait(what)
        sides = []
        for server in (self.pub, self.sub):
            text = "".join(server.run(self.database, open(os.path.join(TOOLS, name + ".sql"), encoding="utf-8").read())
                           for name in ("contents", "catalog"))
            dump = server.tool("pg_dump", "-s", "--no-publications", "--no-subscriptions", "-h", server.socket, "-p", str(server.port),
                               "-U", "postgres", self.database).stdout
            sides.append([l for l in (text + dump).splitlines() if not l.startswith(("\\restrict", "\\unrestrict"))])
        if sides[0] != sides[1]:
            lines = [l[:300] for l in difflib.unified_diff(*sides, "publisher", "subscriber", n=1, lineterm="")]
            raise Fault("after %s both sides are not equal:\n%s" % (what, "\n".join(lines[:60])))

    def ignored(self):
        return self.sub.run(self.database, "SELECT operation, verdict, count(*) FROM schemasync_ddl_history GROUP BY 1, 2 ORDER BY 1, 2")


def django(target, apps):
    target.file("site/__init__.py", "")
    target.file("conf.py", "SECRET_KEY = 'x'\nUSE_TZ = True\nSITE_ID = 1\nINSTALLED_APPS = %r\nDEFAULT_AUTO_FIELD = 'django.db.models.AutoField'\n"
                "DATABASES = {'default': {'ENGINE': 'django.db.backends.postgresql', 'NAME': %r, 'USER': 'postgres', 'HOST': %r, 'PORT': '%d'}}\n"
                "ROOT_URLCONF = 'conf'\nurlpatterns = []\nSTATIC_URL = '/s/'\nSTATIC_ROOT = '/nowhere'\nMIDDLEWARE = ['django.contrib.sessions.middleware.SessionMiddleware',\n"
                "'django.contrib.auth.middleware.AuthenticationMiddleware', 'django.contrib.messages.middleware.MessageMiddleware']\n"
                "TEMPLATES = [{'BACKEND': 'django.template.backends.django.DjangoTemplates', 'OPTIONS': {'context_processors': [\n"
                "'django.contrib.auth.context_processors.auth', 'django.contrib.messages.context_processors.messages', 'django.template.context_processors.request']}}]\n"
                "HAYSTACK_CONNECTIONS = {'default': {'ENGINE': 'haystack.backends.simple_backend.SimpleEngine'}}\n"
                "MAILMAN_REST_API_URL = 'http://localhost:8001'\nMAILMAN_REST_API_USER = 'x'\nMAILMAN_REST_API_PASS = 'x'\nMAILMAN_ARCHIVER_KEY = 'x'\n"
                "MAILMAN_ARCHIVER_FROM = ('127.0.0.1',)\nQ_CLUSTER = {'orm': 'default'}\n"
                "AUTHENTICATION_BACKENDS = ['django.contrib.auth.backends.ModelBackend']\n"
                % (apps, target.database, target.pub.socket, target.pub.port))
    with Django(target) as manage:
        plan = [line.split()[-1].split(".", 1) for line in manage("showmigrations", "--plan") if line.startswith("[")]
        for app, name in plan:
            try:
                manage("migrate", app, name)
            except Fault:
                target.empty()
                manage("migrate", app, name)
            target.fill()
            target.wait("%s %s" % (app, name))
        target.compare("all migrations")
        for app in reversed(list(dict.fromkeys(app for app, _ in plan))):
            try:
                manage("migrate", app, "zero")
            except Fault as fault:      # some migrations of these applications cannot be taken back
                print("# %s stays: %s" % (app, str(fault).strip().splitlines()[-1]))
            target.wait("%s taken back" % app)
        target.compare("all migrations taken back")


class Django:
    """django-admin in one process, since starting it takes longer than what it does."""

    LOOP = """
import sys, traceback, django
from django.core.management import call_command
django.setup()
for line in sys.stdin:
    try:
        call_command(*line.split())
        print("~ok", flush=True)
    except BaseException:
        traceback.print_exc(file=sys.stdout)
        print("~failed", flush=True)
"""

    def __init__(self, target):
        self.target = target

    def __enter__(self):
        env = dict(servers.clean_environment(), HOME=self.target.folder, DJANGO_SETTINGS_MODULE="conf", PYTHONPATH=self.target.folder)
        self.process = subprocess.Popen(["/usr/bin/python3", "-c", self.LOOP], cwd=self.target.folder, env=env, text=True, errors="replace",
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        return self

    def __exit__(self, *_):
        self.process.stdin.close()
        self.process.wait()

    def __call__(self, *arguments):
        self.process.stdin.write(" ".join(arguments) + "\n")
        self.process.stdin.flush()
        lines = []
        for line in self.process.stdout:
            if line.startswith("~ok"):
                self.target.steps += 1
                return lines
            if line.startswith("~failed"):
                break
            lines.append(line.rstrip("\n"))
        raise Fault("%s failed:\n%s" % (" ".join(arguments), "\n".join(lines[-30:])))


def openstack(target, name, *arguments):
    conf = target.file(name + ".conf", "[database]\nconnection = %s\n[DEFAULT]\nstate_path = %s\nlog_file = %s/log\n" % (
        target.url(), target.folder, target.folder))
    # the library is enough: the packages with the command also set up a service
    target.command("/usr/bin/python3", "-c", "import sys; from %s.cmd.manage import main; sys.exit(main())" % name, "--config-file", conf, *arguments)
    target.compare("its migrations")
    target.fill()
    target.compare("rows in every table")


def mailman(target):
    conf = target.file("mailman.cfg", "[mailman]\nlayout: here\n[paths.here]\nvar_dir: %s/var\n[database]\n"
                       "class: mailman.database.postgresql.PostgreSQLDatabase\nurl: %s\n" % (target.folder, target.url("postgresql")))
    target.command("/usr/bin/mailman", "-C", conf, "--run-as-root", "lists")
    target.compare("its migrations")
    target.fill()
    target.compare("rows in every table")


def redmine(target):
    # a copy of what the package installs: there it takes its database from the machine's configuration
    root = os.path.join(target.folder, "redmine")
    shutil.copytree("/usr/share/redmine", root, symlinks=True)
    for name in ("Gemfile.lock", "config/database.yml", "instances"):
        os.remove(os.path.join(root, name))
    with open(os.path.join(root, "Gemfile"), "a", encoding="utf-8") as f:
        f.write("gem 'pg'\n")
    target.file("redmine/instances/default/config/database.yml", "production:\n  adapter: postgresql\n  database: %s\n  host: %s\n  port: %d\n"
                "  username: postgres\n  encoding: utf8\n" % (target.database, target.pub.socket, target.pub.port))
    target.file("redmine/instances/default/config/secret_key.txt", "x" * 128)
    for folder in ("log", "tmp/cache"):
        os.makedirs(os.path.join(root, "instances/default", folder))
    versions = sorted(name.split("_")[0] for name in os.listdir(os.path.join(root, "db/migrate")) if name[0].isdigit())
    for version in versions[40::40] + versions[-1:]:
        arguments = ["/usr/bin/rake", "-f", root + "/Rakefile", "db:migrate", "VERSION=" + version.lstrip("0")]
        more = {"RAILS_ENV": "production", "SCHEMA": target.folder + "/schema.rb"}
        try:
            target.command(*arguments, **more)
        except Fault:
            target.empty()
            target.command(*arguments, **more)
        target.fill()
        target.wait("migration " + version)
    target.compare("all migrations")


def applications():
    """name -> (what must be installed, how it is migrated)"""
    return collections.OrderedDict([
        ("django", ("python3-django python3-psycopg2", lambda t: django(t, DJANGO_APPS))),
        ("hyperkitty", ("python3-django-hyperkitty python3-django-postorius", lambda t: django(t, DJANGO_APPS + DJANGO_MORE))),
        ("mailman", ("mailman3 python3-psycopg2", mailman)),
        ("redmine", ("redmine redmine-pgsql", redmine)),
        ("keystone", ("python3-keystone python3-psycopg2", lambda t: openstack(t, "keystone", "db_sync"))),
        ("glance", ("python3-glance python3-psycopg2", lambda t: openstack(t, "glance", "db", "sync"))),
        ("cinder", ("python3-cinder python3-psycopg2", lambda t: openstack(t, "cinder", "db", "sync"))),
    ])


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--bindir", required=True)
    parser.add_argument("--port", type=int, default=23900)
    parser.add_argument("--options", default=json.dumps({"rewrites": "carry", "ddl_classes": "all"}))
    parser.add_argument("--keep", action="store_true")
    parser.add_argument("names", nargs="*")
    args = parser.parse_args()
    known = applications()
    failed = 0
    with servers.Pair(args.bindir, args.port, args.keep) as pair:
        names = args.names or list(known)
        print("1..%d" % len(names))
        for number, name in enumerate(names, 1):
            try:
                with Target(pair, name, args.options) as target:
                    known[name][1](target)
                    print("ok %d - %s, %d commands" % (number, name, target.steps), flush=True)
                    print("".join("# %s\n" % line for line in target.ignored().splitlines()), end="", flush=True)
            except (Fault, servers.ServerError, subprocess.TimeoutExpired) as fault:
                failed += 1
                print("not ok %d - %s (packages: %s)" % (number, name, known[name][0]))
                print("".join("# %s\n" % line for line in str(fault).splitlines()), end="", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
