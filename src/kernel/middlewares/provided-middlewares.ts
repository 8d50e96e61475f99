/** Middlewares that modules run themselves, such as functions of the operator. */
import { errors } from '../errors.ts';
import type { DecodedInput, OperationContext } from '../operations/operation-input.ts';
import { isMiddleware, PROVIDED, type RunMiddleware } from './middleware-lists.ts';

export type ProvidedMiddleware = (
  context: OperationContext,
  input: DecodedInput,
) => Promise<Readonly<Record<string, unknown>> | undefined>;

/** What modules provide may be called by its name alone. */
export const fullName = (name: string, { has }: ProvidedMiddlewares): string =>
  !isMiddleware(name) && has(name) ? PROVIDED + name : name;

export interface ProvidedMiddlewares {
  /** What modules run now, by name; replaces what they gave before. */
  provide(given: ReadonlyMap<string, ProvidedMiddleware>): void;
  has(name: string): boolean;
  /** As lists of routes name them. */
  names(): readonly string[];
  /** Throws 503 for one that is not there. */
  readonly run: RunMiddleware;
}

export function createProvidedMiddlewares(): ProvidedMiddlewares {
  let provided: ReadonlyMap<string, ProvidedMiddleware> = new Map();
  return {
    provide(given) {
      provided = given;
    },
    has: (name) => provided.has(name),
    names: () => [...provided.keys()].map((name) => PROVIDED + name),
    async run(name, context, input) {
      const middleware = provided.get(name.slice(PROVIDED.length));
      if (!middleware)
        throw errors.UNAVAILABLE({ message: `The middleware ${name} does not run now` });
      return middleware(context, input);
    },
  };
}
