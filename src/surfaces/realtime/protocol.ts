/** What the events of a namespace do: those of the platform's own, and those that a module declared. */
import Type, { type Static, type TObject } from 'typebox';
import { Compile, type Validator } from 'typebox/compile';
import { invalidValueProblem } from '../../kernel/operations/invalid-value.ts';
import { jsonSchema } from '../../kernel/operations/json-schema.ts';
import { invalidInput, problemsOf, type ValidatorError } from '../../kernel/operations/problems.ts';
import type {
  SocketConnection,
  SocketEvent,
  SocketNamespace,
} from '../../kernel/sockets/socket-namespace.ts';
import { Watch } from './live/live-engine.ts';
import {
  createSocketWatches,
  type SocketWatches,
  type SocketWatchParts,
  Unwatch,
} from './live/socket-watches.ts';
import {
  createSubscriptions,
  Subscribe,
  type SubscriptionParts,
  type Subscriptions,
  Target,
} from './subscriptions.ts';

/** What goes into the acknowledgement beside `ok`. */
export type Reply = Readonly<Record<string, unknown>>;

export interface EventHandler {
  readonly heavy: boolean;
  handle(args: readonly unknown[]): Promise<Reply>;
}

export interface Protocol {
  readonly errorEvent: string;
  /** Errors are an event also where the client asked for an acknowledgement. */
  readonly alwaysTells: boolean;
  readonly handlers: ReadonlyMap<string, EventHandler>;
  /** Forgets what the socket was subscribed to. */
  clear(): void;
}

export const RefreshAuth = Type.Object({
  token: Type.String({ minLength: 1, maxLength: 8_192 }),
});

interface PlatformSession {
  readonly subscriptions: Subscriptions;
  readonly watches: SocketWatches;
}

/** An event of the platform's own namespaces: what clients send, and what it does. */
interface PlatformEvent {
  readonly name: string;
  readonly summary: string;
  readonly input: TObject;
  readonly heavy: boolean;
  handler(session: PlatformSession): EventHandler['handle'];
}

const platformEvent = <S extends TObject>(
  event: Omit<PlatformEvent, 'handler' | 'input'> & {
    readonly input: S;
    readonly run: (session: PlatformSession) => (input: Static<S>) => Promise<Reply>;
  },
): PlatformEvent => {
  const { run, ...facts } = event;
  const check = checker(event.input);
  return { ...facts, handler: (session) => accepting(check, run(session)) };
};

export const platformEvents: readonly PlatformEvent[] = [
  platformEvent({
    name: 'watch',
    summary: 'Listen to a record, a list or an endpoint, and have it kept current',
    input: Watch,
    heavy: true,
    run: ({ watches }) => watches.watch,
  }),
  platformEvent({
    name: 'unwatch',
    summary: 'Stop to listen',
    input: Unwatch,
    heavy: false,
    run: ({ watches }) => watches.unwatch,
  }),
  platformEvent({
    name: 'subscribe',
    summary: 'Hear of changes, without the records',
    input: Subscribe,
    heavy: true,
    run: ({ subscriptions }) => subscriptions.subscribe,
  }),
  platformEvent({
    name: 'unsubscribe',
    summary: 'Hear of these changes no more',
    input: Target,
    heavy: false,
    run: ({ subscriptions }) => subscriptions.unsubscribe,
  }),
];

/** Of `/database/` and `/communications/`. `end` closes the socket with an error. */
export function platformProtocol(
  parts: SubscriptionParts & SocketWatchParts,
  end: (error: unknown) => void,
): Protocol {
  const session: PlatformSession = {
    subscriptions: createSubscriptions(parts, end),
    watches: createSocketWatches(parts, end),
  };
  return {
    errorEvent: 'conduit_error',
    alwaysTells: false,
    handlers: new Map(
      platformEvents.map(({ name, heavy, handler }) => [name, { heavy, handle: handler(session) }]),
    ),
    clear() {
      session.subscriptions.clear();
      session.watches.clear();
    },
  };
}

const compiled = new WeakMap<SocketNamespace, ReadonlyMap<string, CompiledEvent>>();

interface CompiledEvent {
  readonly heavy: boolean;
  readonly run: (connection: SocketConnection, args: readonly unknown[]) => Promise<Reply>;
}

/** Of a namespace that a module declared. */
export function moduleProtocol(namespace: SocketNamespace, connection: SocketConnection): Protocol {
  const events = compiled.get(namespace) ?? compileEvents(namespace);
  compiled.set(namespace, events);
  return {
    errorEvent: namespace.errorEvent,
    alwaysTells: true,
    handlers: new Map(
      [...events].map(([name, { heavy, run }]) => [
        name,
        { heavy, handle: (args: readonly unknown[]) => run(connection, args) },
      ]),
    ),
    clear: () => undefined,
  };
}

const compileEvents = ({ events }: SocketNamespace): ReadonlyMap<string, CompiledEvent> =>
  new Map(
    events.map(({ name, input, heavy = false, handler, ...form }) => {
      const check = checker(input);
      return [
        name,
        {
          heavy,
          run: async (connection: SocketConnection, args: readonly unknown[]) =>
            handler(connection, check(inputOf(args, form)) as never),
        },
      ] as const;
    }),
  );

type Checker<Input> = (input: unknown) => Input;

/** A handler that gets its input, one argument, validated. */
export const accepting =
  <Input>(
    check: Checker<Input>,
    handler: (input: Input) => Promise<Reply>,
  ): EventHandler['handle'] =>
  async (args) =>
    handler(check(inputOf(args, {})));

/** Throws 400. To be made once for a schema, when the first input comes: what is compiled takes time and memory. */
export function checker<S extends TObject>(schema: S): Checker<Static<S>> {
  let compiled: Validator<Record<never, never>, S> | undefined;
  return (input) => {
    const refused = invalidValueProblem(input, '');
    if (refused) throw invalidInput([{ ...refused, path: refused.path || 'input' }]);
    compiled ??= Compile(schema);
    if (compiled.Check(input)) return input;
    throw invalidInput(
      problemsOf(
        jsonSchema(schema),
        compiled.Errors(input) as unknown as readonly ValidatorError[],
        'input',
      ),
    );
  };
}

/** The input, from one argument, from several that have names, or from all. */
function inputOf(
  args: readonly unknown[],
  { parameters, allArguments }: Pick<SocketEvent, 'parameters' | 'allArguments'>,
): unknown {
  if (allArguments) return { params: args };
  if (!parameters) return args[0];
  return Object.fromEntries(
    parameters.flatMap((name, at) => (args[at] === undefined ? [] : [[name, args[at]]])),
  );
}
