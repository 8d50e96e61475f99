/** The list of every route that the interface promises (`routes.json`), and what it says about each. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import Type, { type Static } from 'typebox';
import { Compile } from 'typebox/compile';

const State = Type.Union([
  Type.Literal('works'),
  Type.Literal('partly'),
  Type.Literal('not yet'),
  Type.Literal('removed'),
]);

const Route = Type.Object(
  {
    /** Section of the interface text that lists it. */
    section: Type.String({ pattern: '^4\\.[1-9]$' }),
    /** `METHOD /path/:parameter`; `ANY` for every method. */
    route: Type.String({ pattern: '^(GET|POST|PUT|PATCH|DELETE|ANY|CONNECT) /' }),
    surface: Type.Union([Type.Literal('client'), Type.Literal('admin'), Type.Literal('realtime')]),
    /** Which line of clients calls it. */
    line: Type.Union([Type.Literal('0.16'), Type.Literal('current'), Type.Literal('both')]),
    module: Type.String(),
    credential: Type.String(),
    state: State,
    /** Test files that call it; at least one unless the state is `not yet`. */
    tests: Type.Optional(Type.Array(Type.String(), { minItems: 1 })),
    /** What is missing, or what one must know. */
    note: Type.Optional(Type.String()),
  },
  { additionalProperties: false },
);

const RouteList = Type.Object({ routes: Type.Array(Route) }, { additionalProperties: false });

export type RouteState = Static<typeof State>;
export type PromisedRoute = Static<typeof Route>;

export const projectRoot = join(import.meta.dirname, '..');

/** Reads the list; throws when an entry is not well formed. */
export function readRoutes(): PromisedRoute[] {
  const list: unknown = JSON.parse(readFileSync(join(import.meta.dirname, 'routes.json'), 'utf8'));
  return Compile(RouteList).Parse(list).routes;
}

/** Method and path with the names of parameters taken away, so that spellings can be compared. */
export function routeKey(route: string): string {
  return route.replace(/:\w+|\{\w+\}/g, '{}').replace(/(.)\/$/, '$1');
}
