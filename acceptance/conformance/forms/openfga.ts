/** Test files of OpenFGA as they are published: suites with stages (`tests.yaml`), and stores (`store.fga.yaml`). */
import { readFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { type OpenfgaModel, readModel } from './openfga-model.ts';
import {
  type Around,
  type PublicCase,
  type PublicCheck,
  type PublicList,
  type PublicTuple,
  type PublicWho,
  Unmapped,
} from './public-case.ts';
import { type OpenfgaTuple as Tuple, type TupleSources, tuplesOf } from './tuple-files.ts';

interface Asking {
  readonly context?: Record<string, unknown>;
  readonly contextualTuples?: readonly Tuple[];
  readonly errorCode?: number;
  readonly temporarilySkipReason?: string;
}

interface Stage {
  readonly model: string;
  readonly tuples?: readonly Tuple[] | null;
  readonly checkAssertions?:
    | readonly (Asking & {
        readonly tuple: Tuple;
        readonly expectation?: boolean;
      })[]
    | null;
  readonly listObjectsAssertions?:
    | readonly (Asking & {
        readonly request: {
          readonly user: string;
          readonly type: string;
          readonly relation: string;
        };
        readonly expectation?: readonly string[] | null;
      })[]
    | null;
  readonly listUsersAssertions?:
    | readonly (Asking & {
        readonly request: {
          readonly filters: readonly string[];
          readonly object: string;
          readonly relation: string;
        };
        readonly expectation?: readonly string[] | null;
      })[]
    | null;
}

export interface Suite {
  readonly tests: readonly { readonly name: string; readonly stages: readonly Stage[] }[];
}

/** Cases of a suite: one for each stage. */
export function suiteCases({ tests }: Suite): readonly PublicCase[] {
  return tests.flatMap(({ name, stages }) =>
    stages.map((stage, i) => {
      const earlier = stages.slice(0, i).flatMap(({ tuples }) => tuples ?? []);
      return caseOf(stages.length > 1 ? `${name}/${i + 1}` : name, stage.model, (model) =>
        stageParts(model, stage, earlier),
      );
    }),
  );
}

type Parts = Omit<PublicCase, 'id' | 'resources'>;

const nothing: Parts = { tuples: [], kept: [], checks: [], lists: [], whos: [], unmapped: [] };

/** A model that cannot be said is a case that asks nothing, and says why. */
function caseOf(id: string, text: string, parts: (model: OpenfgaModel) => Parts): PublicCase {
  try {
    const model = readModel(text);
    return { id, resources: model.resources, ...parts(model) };
  } catch (error) {
    if (!(error instanceof Unmapped)) throw error;
    return { id, resources: [], ...nothing, unmapped: [`the model: ${error.message}`] };
  }
}

/** What is left out of the questions, with the reasons. */
function sorted<T extends Asking>(
  asked: readonly T[] | null | undefined,
  what: string,
  unmapped: string[],
): readonly T[] {
  return (asked ?? []).filter(({ temporarilySkipReason }, i) => {
    if (temporarilySkipReason !== undefined)
      unmapped.push(`${what} ${i + 1}: the file skips it ${temporarilySkipReason}`);
    return temporarilySkipReason === undefined;
  });
}

function stageParts(model: OpenfgaModel, stage: Stage, earlier: readonly Tuple[]): Parts {
  const unmapped: string[] = [];
  const checks = sorted(stage.checkAssertions, 'check', unmapped).map(
    ({ tuple, expectation, ...asking }): PublicCheck => ({
      ...questionOf(model, tuple.user, tuple.relation, tuple.object),
      ...aroundOf(model, asking),
      expected: asking.errorCode === undefined ? expectation === true : 'error',
    }),
  );
  const lists = sorted(stage.listObjectsAssertions, 'list', unmapped).map(
    ({ request, expectation, ...asking }): PublicList => ({
      subject: subjectOf(model, request.user),
      permission: model.name(request.relation),
      type: model.name(request.type),
      ...aroundOf(model, asking),
      expected: expectedOf(model, expectation, asking),
    }),
  );
  const whos = sorted(stage.listUsersAssertions, 'who', unmapped).flatMap(
    ({ request, expectation, ...asking }, i): PublicWho[] => {
      const [filter = ''] = request.filters;
      if (filter.includes('#') || request.filters.length !== 1) {
        unmapped.push(
          `who ${i + 1}: who-can asks for objects of one type, not for ${request.filters.join()}`,
        );
        return [];
      }
      return [
        {
          resource: objectOf(model, request.object),
          permission: model.name(request.relation),
          subjectType: model.name(filter),
          ...aroundOf(model, asking),
          expected: expectedOf(model, expectation, asking),
        },
      ];
    },
  );
  const tuples = (stage.tuples ?? []).map((tuple) => tupleOf(model, tuple));
  const kept = earlier.map((tuple) => tupleOf(model, tuple));
  return { tuples, kept, checks, lists, whos, unmapped };
}

const expectedOf = (
  model: OpenfgaModel,
  expectation: readonly string[] | null | undefined,
  { errorCode }: Asking,
): readonly string[] | 'error' =>
  errorCode === undefined ? (expectation ?? []).map((one) => subjectOf(model, one)) : 'error';

const questionOf = (model: OpenfgaModel, user: string, relation: string, object: string) => ({
  subject: subjectOf(model, user),
  permission: model.name(relation),
  resource: objectOf(model, object),
});

function aroundOf(model: OpenfgaModel, { context, contextualTuples }: Asking): Around {
  return {
    ...(context && { context }),
    ...(contextualTuples && {
      contextualTuples: contextualTuples.map((tuple) => tupleOf(model, tuple)),
    }),
  };
}

const tupleOf = (
  model: OpenfgaModel,
  { user, relation, object, condition }: Tuple,
): PublicTuple => ({
  subject: subjectOf(model, user),
  relation: model.assigned(relation),
  resource: objectOf(model, object),
  ...(condition && {
    condition: condition.name,
    ...(condition.context && { attributes: condition.context }),
  }),
});

/** The type and the rest of `type:id`; what is no such text stays, for the platform to refuse. */
function objectOf(model: OpenfgaModel, text: string): string {
  const colon = text.indexOf(':');
  return colon < 0 ? text : `${model.name(text.slice(0, colon))}${text.slice(colon)}`;
}

function subjectOf(model: OpenfgaModel, text: string): string {
  const [object = '', set] = text.split('#');
  return `${objectOf(model, object)}${set === undefined ? '' : `#${model.name(set)}`}`;
}

/* Stores. */

export interface Store extends TupleSources {
  readonly name?: string;
  readonly model?: string;
  readonly model_file?: string;
  readonly tests?: readonly StoreTest[];
}

interface StoreAsking {
  readonly context?: Record<string, unknown>;
  readonly assertions: Readonly<Record<string, unknown>>;
}

interface StoreTest extends TupleSources {
  readonly name?: string;
  readonly check?: readonly (StoreAsking & {
    readonly user?: string;
    readonly users?: readonly string[];
    readonly object?: string;
    readonly objects?: readonly string[];
  })[];
  readonly list_objects?: readonly (StoreAsking & {
    readonly user: string;
    readonly type: string;
  })[];
  readonly list_users?: readonly (StoreAsking & {
    readonly object: string;
    readonly user_filter: readonly { readonly type: string; readonly relation?: string }[];
  })[];
}

/** One case for each test of a store. `file`: where it was read, for files that it names. */
export async function storeCases(store: Store, file: string): Promise<readonly PublicCase[]> {
  const named = store.model_file;
  const model =
    store.model ?? (named === undefined ? '' : await readFile(join(dirname(file), named), 'utf8'));
  const shared = await tuplesOf(store, file);
  return Promise.all(
    (store.tests ?? []).map(async (test, i) => {
      const tuples = [...shared, ...(await tuplesOf(test, file))];
      return caseOf(`${store.name ?? 'store'}/${test.name ?? i + 1}`, model, (read) =>
        storeParts(read, tuples, test),
      );
    }),
  );
}

function storeParts(model: OpenfgaModel, tuples: readonly Tuple[], test: StoreTest): Parts {
  const unmapped: string[] = [];
  const checks = (test.check ?? []).flatMap(({ context, assertions, ...asked }) => {
    const users = asked.users ?? (asked.user === undefined ? [] : [asked.user]);
    const objects = asked.objects ?? (asked.object === undefined ? [] : [asked.object]);
    return users.flatMap((user) =>
      objects.flatMap((object) =>
        Object.entries(assertions).map(
          ([relation, expected]): PublicCheck => ({
            ...questionOf(model, user, relation, object),
            ...(context && { context }),
            expected: expected === true,
          }),
        ),
      ),
    );
  });
  const lists = (test.list_objects ?? []).flatMap(({ user, type, context, assertions }) =>
    Object.entries(assertions).map(
      ([relation, expected]): PublicList => ({
        subject: subjectOf(model, user),
        permission: model.name(relation),
        type: model.name(type),
        ...(context && { context }),
        expected: expectedOf(model, expected as readonly string[] | null, {}),
      }),
    ),
  );
  const whos = (test.list_users ?? []).flatMap(
    ({ object, user_filter, context, assertions }, i) => {
      const [filter] = user_filter;
      if (!filter || filter.relation !== undefined || user_filter.length !== 1) {
        unmapped.push(`list_users ${i + 1}: who-can asks for objects of one type`);
        return [];
      }
      return Object.entries(assertions).map(([relation, expected]): PublicWho => {
        const { users = [] } = expected as { readonly users?: readonly string[] };
        return {
          resource: objectOf(model, object),
          permission: model.name(relation),
          subjectType: model.name(filter.type),
          ...(context && { context }),
          expected: expectedOf(model, users, {}),
        };
      });
    },
  );
  return {
    tuples: tuples.map((tuple) => tupleOf(model, tuple)),
    kept: [],
    checks,
    lists,
    whos,
    unmapped,
  };
}
