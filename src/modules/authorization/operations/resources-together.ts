/** Several resource definitions as one change: types may need one another. */
import Type from 'typebox';
import { invalid } from '../../../kernel/errors.ts';
import {
  defineOperation,
  type Operation,
  standardLimit,
} from '../../../kernel/operations/operation.ts';
import { placed } from '../../../kernel/state.ts';
import { authorizationErrors } from '../errors.ts';
import type { Definitions } from '../services/definitions/definitions.ts';
import {
  type DefinitionContent,
  parsedDefinition,
  sameContent,
} from '../services/definitions/stored-definition.ts';
import { contentOf, NewDefinitionShape } from './resources.ts';
import { Definition, definitionOnWire, Warning } from './shapes.ts';

const MAX_DEFINITIONS = 100;
const { version: _, ...written } = NewDefinitionShape.properties;

export const defineTogether = (definitions: Definitions): Operation =>
  defineOperation({
    surface: 'admin',
    access: 'admin',
    limit: standardLimit,
    idempotency: false,
    id: 'authorization.resources.defineTogether',
    method: 'POST',
    path: '/authorization/resources/many',
    strict: true,
    bodyLimit: 1024 * 1024,
    input: {
      body: Type.Object(
        {
          definitions: Type.Array(Type.Object(written, { additionalProperties: false }), {
            minItems: 1,
            maxItems: MAX_DEFINITIONS,
            description: 'Types as POST /authorization/resources takes them',
          }),
          dryRun: Type.Optional(
            Type.Boolean({
              default: false,
              description: 'Says what would happen, and does nothing',
            }),
          ),
        },
        { additionalProperties: false },
      ),
    },
    output: Type.Object({
      plan: Type.Array(
        Type.Object({
          name: Type.String(),
          change: Type.Enum(['create', 'change', 'none']),
          warnings: Type.Array(Warning, { description: 'What the change does to people' }),
        }),
      ),
      resources: Type.Array(Definition, {
        description: 'As they are in force now; none of a dry run',
      }),
    }),
    errors: [authorizationErrors.RESOURCE_IN_USE],
    summary: 'Define several types as one change',
    description:
      'All of them or none, in one transaction; they may refer to one another. Types that are there are replaced, and take the next version. What would break stored relations or other definitions is 409. In force on every node when the answer comes.',
    async handler({ caller }, { body: { definitions: given, dryRun = false } }) {
      const contents = given.map(({ name, ...rest }) => ({ name, ...contentOf(rest) }));
      const requested = contents.map(({ version: _version, ...content }) => content);
      requireDistinct(requested);
      const plan = await planOf(definitions, requested);
      if (dryRun) return { plan, resources: [] };
      await definitions.defineAll(caller, requested);
      const stored = await Promise.all(requested.map(({ name }) => definitions.get(name)));
      return { plan, resources: stored.map(definitionOnWire) };
    },
  });

function requireDistinct(requested: readonly DefinitionContent[]): void {
  const seen = new Set<string>();
  for (const [i, { name }] of requested.entries()) {
    if (seen.has(name))
      throw invalid(`definitions.${i}.name`, 'unique', 'this type is there twice');
    seen.add(name);
  }
}

/** Throws what is wrong, with the place of the definition. */
async function planOf(definitions: Definitions, requested: readonly DefinitionContent[]) {
  const places = new Map(requested.map(({ name }, i) => [name, `definitions.${i}`]));
  const nothing: ReadonlySet<string> = new Set();
  // One that is no definition at all would be missed by those that need it.
  for (const [i, content] of requested.entries())
    await placed(`definitions.${i}`, () => parsedDefinition(content));
  await definitions.checkAll(
    {
      defined: requested,
      removed: [],
      withoutSchema: nothing,
      withRecords: nothing,
      withSchema: nothing,
      comes: () => false,
    },
    (name) => places.get(name) ?? name,
  );
  const stored = new Map((await definitions.all()).map((one) => [one.name, one]));
  const warnings = await definitions.warnings(requested);
  return requested.map((content) => {
    const before = stored.get(content.name);
    const change: 'create' | 'change' | 'none' = !before
      ? 'create'
      : sameContent(before, content)
        ? 'none'
        : 'change';
    return { name: content.name, change, warnings: [...(warnings.get(content.name) ?? [])] };
  });
}
