/** Looks again whether what is open may stay open, when something happened to the user or the app that it belongs to. */
import type { PublishedEvent } from '../../kernel/events/events.ts';
import type { EndedCredentials } from '../../kernel/identity.ts';

/** Milliseconds after an event to look a second time: caches of this node may have been a moment behind. */
const secondLookMs = 1_000;

/** Whose something is. */
export interface Holder {
  /** Empty for a visitor. */
  readonly userId: string;
  /** Id of the app that was presented, as it came; nothing without one. */
  readonly app: string | undefined;
  /** Id of the session that it is open for now; nothing for a visitor. */
  readonly sessionId?: () => string | undefined;
}

interface Open {
  /** Ends it if it may not stay. */
  recheck(): Promise<void>;
}

export interface Rechecks<O extends Open> {
  /** Answers how to leave. */
  enter(holder: Holder, one: O): () => void;
  ofUser(userId: string): Iterable<O>;
  /** An event about a user or an app may be the end of their sessions: whatever it was, look again. */
  recheckSubjects(event: Pick<PublishedEvent, 'topic' | 'ids' | 'payload'>): void;
  /** Settles when all that is open for these has been looked at. */
  recheckEnded(ended: EndedCredentials): Promise<void>;
  recheckAll(): void;
  stop(): void;
}

const none: ReadonlySet<never> = new Set();
/** No id of a user begins like this. */
const keyOfApp = (app: string): string => `app:${app}`;
const keysOf = ({ userId, app }: Holder): readonly string[] =>
  app === undefined ? [userId] : [userId, keyOfApp(app)];

/** Users by their ids, and the app of an event of the router: everything that changes an app names its client id. */
function subjectsOf({
  topic,
  ids = [],
  payload,
}: Pick<PublishedEvent, 'topic' | 'ids' | 'payload'>): readonly string[] {
  const clientId = payload?.clientId;
  const isOfApp = topic.startsWith('router:') && typeof clientId === 'string';
  return isOfApp ? [...ids, keyOfApp(clientId)] : ids;
}

export function createRechecks<O extends Open>(): Rechecks<O> {
  const open = new Map<string, Set<O>>();
  const all = new Map<O, Holder>();
  const seconds = new Set<NodeJS.Timeout>();
  const recheck = (key: string): void => {
    for (const one of open.get(key) ?? none) void one.recheck();
  };
  const leave = (key: string, one: O): void => {
    const those = open.get(key);
    if (those?.delete(one) && those.size === 0) open.delete(key);
  };
  return {
    enter(holder, one) {
      const keys = keysOf(holder);
      all.set(one, holder);
      for (const key of keys) open.set(key, (open.get(key) ?? new Set()).add(one));
      return () => {
        all.delete(one);
        for (const key of keys) leave(key, one);
      };
    },
    ofUser: (userId) => open.get(userId) ?? none,
    recheckSubjects(event) {
      for (const key of subjectsOf(event)) {
        if (!open.has(key)) continue;
        recheck(key);
        const timer = setTimeout(() => {
          seconds.delete(timer);
          recheck(key);
        }, secondLookMs);
        seconds.add(timer);
      }
    },
    async recheckEnded({ sessions = [], apps = [], withoutApp = false }) {
      const found = new Set(withoutApp ? all.keys() : []);
      for (const one of apps.flatMap((app) => [...(open.get(keyOfApp(app)) ?? none)]))
        found.add(one);
      const ended = new Set(sessions);
      // Sessions change while something is open, and few end: all are gone through instead of a list for each.
      if (ended.size > 0)
        for (const [one, { sessionId }] of all) {
          const session = sessionId?.();
          if (session !== undefined && ended.has(session)) found.add(one);
        }
      await Promise.all([...found].map((one) => one.recheck()));
    },
    recheckAll() {
      for (const one of all.keys()) void one.recheck();
    },
    stop() {
      for (const timer of seconds) clearTimeout(timer);
    },
  };
}
