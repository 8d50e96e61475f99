/**
 * What stands before the handler of a route, as operators read and write it: a list of names. A module demands
 * some of them by declaring its operation; operators may add others, and take away what operators added.
 */
import { errors } from '../errors.ts';
import type { Access, Method, Operation, RateLimit, SurfaceName } from '../operations/operation.ts';
import type { DecodedInput, OperationContext } from '../operations/operation-input.ts';
import { routesOf } from '../operations/registry.ts';

/** The names that an access stands for, in the order in which they are asked. */
const byAccess: Readonly<Record<Access, readonly string[]>> = {
  public: [],
  optionalUser: ['authMiddleware?'],
  user: ['authMiddleware'],
  partialUser: ['partialAuthMiddleware'],
  refreshToken: ['refreshTokenMiddleware'],
  admin: ['adminMiddleware'],
  superAdmin: ['adminMiddleware', 'superAdminMiddleware'],
  masterKey: ['masterKeyMiddleware'],
  adminSecondFactor: ['secondFactorMiddleware'],
};

/** What each name means; the form of the limit stands for all limits. */
export const middlewareMeanings: ReadonlyMap<
  string,
  { readonly meaning: string; readonly surface: SurfaceName | 'both'; readonly addable: boolean }
> = new Map([
  ['authMiddleware', { meaning: 'Needs a signed-in user', surface: 'client', addable: true }],
  [
    'authMiddleware?',
    { meaning: 'Takes a user token, and nobody', surface: 'client', addable: false },
  ],
  [
    'partialAuthMiddleware',
    {
      meaning: 'Needs a user, who may still owe the second factor',
      surface: 'client',
      addable: false,
    },
  ],
  [
    'refreshTokenMiddleware',
    { meaning: 'Needs a refresh token', surface: 'client', addable: false },
  ],
  ['adminMiddleware', { meaning: 'Needs an admin credential', surface: 'admin', addable: false }],
  ['superAdminMiddleware', { meaning: 'Needs a super admin', surface: 'admin', addable: true }],
  ['masterKeyMiddleware', { meaning: 'Needs the master key', surface: 'admin', addable: false }],
  [
    'secondFactorMiddleware',
    { meaning: 'Needs the short token of an admin login', surface: 'admin', addable: false },
  ],
  [
    'rateLimit:<requests>/<seconds>',
    {
      meaning: 'So many requests of one caller in so many seconds',
      surface: 'both',
      addable: true,
    },
  ],
]);

/** Requests and seconds, at most an hour of them: `50/1`. */
export const limitPattern = '^[1-9][0-9]{0,5}/([1-9][0-9]{0,2}|[12][0-9]{3}|3[0-5][0-9]{2}|3600)$';
const limitForm = new RegExp(limitPattern);
const LIMIT = 'rateLimit:';

/** So many requests in so many seconds. */
export type LimitNumbers = Pick<RateLimit, 'requests' | 'seconds'>;

/** What a text such as `50/1` says. */
export function limitNumbers(text: string): LimitNumbers | undefined {
  if (!limitForm.test(text)) return undefined;
  const [requests, seconds] = text.split('/');
  return { requests: Number(requests), seconds: Number(seconds) };
}

/** The budget that a name stands for. */
const limitOf = (name: string): RateLimit | undefined =>
  name.startsWith(LIMIT) ? limitNumbers(name.slice(LIMIT.length)) : undefined;

export const nameOfLimit = ({ requests, seconds }: RateLimit): string =>
  `${LIMIT}${requests}/${seconds}`;

/** Middlewares that modules provide while they run are listed as `<prefix><name>`. */
export const PROVIDED = 'function:';

const isProvided = (name: string): boolean => name.startsWith(PROVIDED);

export const isMiddleware = (name: string): boolean =>
  limitOf(name) !== undefined || (middlewareMeanings.has(name) && !name.startsWith(LIMIT));

/** What the module demands. */
export function declaredMiddlewares({
  access,
  limit,
}: Pick<Operation, 'access' | 'limit'>): readonly string[] {
  return [...byAccess[access], ...(typeof limit === 'string' ? [] : [nameOfLimit(limit)])];
}

/** Whether an operator may add this name to the operation: only what makes it stricter, and only where it means something. */
export function isAddable(
  name: string,
  {
    access,
    surface,
    limit,
    replacedLimit,
  }: Pick<Operation, 'access'> & Partial<Pick<Operation, 'surface' | 'limit' | 'replacedLimit'>>,
): boolean {
  if (isProvided(name)) return surface === 'client' && limit !== 'none';
  if (name === 'authMiddleware') return access === 'public' || access === 'optionalUser';
  if (name === 'superAdminMiddleware') return access === 'admin';
  // What the module declared is replaced: in a stored list it is what was demanded then.
  if (replacedLimit && name === nameOfLimit(replacedLimit)) return false;
  return limitOf(name) !== undefined;
}

/** A user who must be there satisfies a route that takes one. */
const covers = (names: readonly string[], demanded: string): boolean =>
  names.includes(demanded) || (demanded === 'authMiddleware?' && names.includes('authMiddleware'));

/** The demands of the module that a list leaves out. */
export const missingDemands = (names: readonly string[], operation: Operation): readonly string[] =>
  declaredMiddlewares(operation).filter((demanded) => !covers(names, demanded));

/** A route, whatever its parameters are called. */
export const routeKeyOf = (surface: SurfaceName, method: Method, path: string): string =>
  `${surface} ${method} ${path.replace(/:\w+/g, ':').replace(/(?<=.)\/$/, '')}`;

/* An operation as it is with what operators added to its route. */

/** Lists that operators set, by route key. */
export type MiddlewareLists = ReadonlyMap<string, readonly string[]>;

/**
 * The list in force: what the operator set, with every demand of the module, whether they kept it or not (the module
 * may have come to demand it later), and without what no longer fits the route.
 */
export function middlewaresOf(operation: Operation, lists: MiddlewareLists): readonly string[] {
  const declared = declaredMiddlewares(operation);
  const set = routesOf(operation).flatMap(
    ({ method, path }) => lists.get(routeKeyOf(operation.surface, method, path)) ?? [],
  );
  const fitting = set.filter((name) => declared.includes(name) || isAddable(name, operation));
  return [...new Set([...missingDemands(fitting, operation), ...fitting])];
}

/** Other numbers for the limit that an operation declares; the same operation where it declares none. */
export function withLimit(operation: Operation, numbers: LimitNumbers | undefined): Operation {
  const { limit } = operation;
  if (!numbers || typeof limit === 'string') return operation;
  return Object.freeze({
    ...operation,
    limit: { ...limit, ...numbers },
    replacedLimit: limit,
  });
}

/** The same operation when nothing was added. It can only become stricter. */
export function withMiddlewares(
  operation: Operation,
  names: readonly string[],
  run: RunMiddleware = refuseAll,
): Operation {
  const declared = declaredMiddlewares(operation);
  const added = names.filter((name) => !declared.includes(name));
  if (added.length === 0) return operation;
  const limits = added.map(limitOf).filter((limit): limit is RateLimit => limit !== undefined);
  const provided = added.filter(isProvided);
  const asked = added.filter((name) => isProvided(name) || limitOf(name));
  return Object.freeze({
    ...operation,
    access: stricter(operation.access, added),
    ...(limits.length > 0 ? { addedLimits: limits } : {}),
    ...(provided.length > 0 ? { handler: guarded(operation, provided, run) } : {}),
    ...(operation.live && asked.length > 0 ? { live: unasked(asked) } : {}),
  });
}

/** Runs a provided middleware before a handler. Throws what refuses the request; what it answers is for the handler to see. */
export type RunMiddleware = (
  name: string,
  context: OperationContext,
  input: DecodedInput,
) => Promise<Readonly<Record<string, unknown>> | undefined>;

/** A middleware that is not there lets nobody pass. */
const refuseAll: RunMiddleware = (name) =>
  Promise.reject(errors.UNAVAILABLE({ message: `The middleware ${name} is not there now` }));

const known = new WeakMap<OperationContext, Record<string, unknown>>();

/** What middlewares have said about a request. */
export const middlewareContext = (context: OperationContext): Readonly<Record<string, unknown>> =>
  known.get(context) ?? {};

const guarded =
  (operation: Operation, names: readonly string[], run: RunMiddleware): Operation['handler'] =>
  async (context, input) => {
    for (const name of names) {
      const said = await run(name, context, input);
      if (said) known.set(context, { ...known.get(context), ...said });
    }
    return operation.handler(context, input);
  };

/** What looks at each request, or counts them, cannot be asked by an answer that comes without any. */
const unasked = (names: readonly string[]) => (): Promise<never> =>
  Promise.reject(
    errors.FORBIDDEN({
      message: `This route asks ${names.join(', ')} for each request: call it instead of listening to it`,
    }),
  );

function stricter(access: Access, added: readonly string[]): Access {
  if (added.includes('authMiddleware') && (access === 'public' || access === 'optionalUser'))
    return 'user';
  return added.includes('superAdminMiddleware') && access === 'admin' ? 'superAdmin' : access;
}
