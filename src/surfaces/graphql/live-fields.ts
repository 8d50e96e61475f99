/**
 * Fields of subscriptions: one for each operation whose answer can be kept current, under the name and with the arguments
 * of its field, and one for each namespace of sockets that asks for one.
 */
import {
  GraphQLEnumType,
  type GraphQLFieldConfig,
  type GraphQLFieldResolver,
  GraphQLList,
  GraphQLNonNull,
  GraphQLObjectType,
  type GraphQLOutputType,
} from 'graphql';
import { alternatives, type JsonSchema, jsonSchema } from '../../kernel/operations/json-schema.ts';
import type { SocketNamespace } from '../../kernel/sockets/socket-namespace.ts';
import type { OperationField } from './fields.ts';
import { scalars } from './scalars.ts';
import { camelHeader, capitalised, createNamePool } from './shape.ts';
import type { TypeBuilder } from './types.ts';

/** The answer of an operation, kept current. */
export interface LiveField {
  readonly kind: 'live';
  readonly field: OperationField;
  /** The argument that is the last position that was heard. */
  readonly since: string;
}

/** What sockets of a namespace are told. */
export interface EventsField {
  readonly kind: 'events';
  /** Such as `/chat`. */
  readonly namespace: string;
  /** The argument, and the property of payloads, that choose among them. */
  readonly by: string | undefined;
}

/** Makes what happens when somebody subscribes to a field: it answers the source of its events. */
export type SubscribeWith = (
  field: LiveField | EventsField,
) => GraphQLFieldResolver<unknown, unknown>;

type FieldConfig = GraphQLFieldConfig<unknown, unknown>;

export interface SubscriptionFields {
  ofOperation(field: OperationField, config: FieldConfig): FieldConfig;
  ofNamespace(
    namespace: SocketNamespace,
  ): { readonly name: string; readonly config: FieldConfig } | undefined;
}

/** The property of a payload that is its event: `message-edited` is `messageEdited`. */
export const eventField = (event: string): string => camelHeader(event);

export function createSubscriptionFields(
  types: TypeBuilder,
  subscribeWith: SubscribeWith,
): SubscriptionFields {
  const answers = createAnswerTypes(types);
  return {
    ofOperation(field, config) {
      const { operation } = field.compiled;
      const pool = createNamePool(Object.keys(config.args ?? {}));
      const since = pool.take('since');
      return {
        type: new GraphQLNonNull(answers.of(jsonSchema(operation.output), field.name)),
        args: {
          ...config.args,
          [since]: {
            type: scalars.String,
            description: 'The last position that was heard, to go on after a loss.',
          },
        },
        description: `${operation.summary}, and hear what changes about it.`,
        subscribe: subscribeWith({ kind: 'live', field, since }),
        resolve: (source) => source,
      };
    },
    ofNamespace(namespace) {
      const { name, graphql, summary } = namespace;
      if (!graphql) return undefined;
      const { field, by } = graphql;
      const config: FieldConfig = {
        type: new GraphQLNonNull(eventsType(namespace, field, types)),
        args:
          by === undefined
            ? {}
            : { [by]: { type: scalars.ID, description: `Only what has this \`${by}\`.` } },
        description: `${summary} What is told of is what is selected: each field is an event.`,
        subscribe: subscribeWith({ kind: 'events', namespace: name, by }),
        resolve: (source) => source,
      };
      return { name: field, config };
    },
  };
}

/** All events that sockets of the namespace are sent, of which one is set. */
function eventsType(
  { sends, summary }: SocketNamespace,
  field: string,
  types: TypeBuilder,
): GraphQLObjectType {
  const name = types.take(capitalised(field));
  const events = sends.map(({ name: event, summary: description, payload }) => {
    const property = eventField(event);
    const type = types.output(jsonSchema(payload), name + capitalised(property));
    return [property, { type, description }] as const;
  });
  return new GraphQLObjectType({
    name,
    description: summary,
    fields: {
      event: { type: new GraphQLNonNull(scalars.String), description: 'Its name over sockets.' },
      ...Object.fromEntries(events),
    },
  });
}

const isRecord = (schema: JsonSchema): boolean =>
  alternatives(schema).some(({ record }) => record !== undefined);

/** The records of an answer: of a list, of a page, or the one. Absent: the answer is worked out. */
function recordOf(output: JsonSchema): JsonSchema | undefined {
  const candidates = [output.properties?.documents?.items, output.items, output];
  return candidates
    .filter((one): one is JsonSchema => one !== undefined && !Array.isArray(one))
    .find(isRecord);
}

/** What subscribers are told in any case. */
function commonFields(types: TypeBuilder) {
  const gap = new GraphQLEnumType({
    name: types.take('GapReason'),
    description: 'Why a listener may have missed something.',
    values: {
      lost: { description: 'What was missed cannot be told: here is the whole answer again.' },
      slow: { description: 'You did not read fast enough. Subscribe again.' },
      changed: { description: 'Who may see what was defined anew. Subscribe again.' },
      refused: { description: 'It is not offered to you any more.' },
      failed: { description: 'The platform could not read. Subscribe again, later.' },
    },
  });
  return {
    position: { type: scalars.String, description: 'Where this stands: send it as `since`.' },
    gap: { type: gap, description: 'The subscription ends after it, but after `lost`.' },
  };
}

/** Types of what subscribers are told. All questions about one kind of record share theirs. */
function createAnswerTypes(types: TypeBuilder) {
  const known = new Map<GraphQLOutputType, GraphQLObjectType>();
  const kind = new GraphQLEnumType({
    name: types.take('ChangeKind'),
    values: { added: {}, changed: {}, removed: {} },
  });
  const common = commonFields(types);
  const listType = (record: GraphQLOutputType, name: string): GraphQLObjectType => {
    const change = new GraphQLObjectType({
      name: types.take(`${name}Change`),
      description:
        'Take the record out of your list; unless it is removed, put it in at the index.',
      fields: {
        kind: { type: new GraphQLNonNull(kind) },
        id: { type: new GraphQLNonNull(scalars.ID) },
        index: { type: scalars.Int, description: 'Its place, from 0.' },
        record: { type: record },
      },
    });
    return new GraphQLObjectType({
      name: types.take(`${name}Live`),
      fields: {
        ...common,
        records: {
          type: new GraphQLList(new GraphQLNonNull(record)),
          description: 'All of them, to begin with.',
        },
        changes: {
          type: new GraphQLList(new GraphQLNonNull(change)),
          description: 'What is different, to be done one after the other.',
        },
      },
    });
  };
  const valueType = (value: GraphQLOutputType, name: string): GraphQLObjectType =>
    new GraphQLObjectType({
      name: types.take(`${capitalised(name)}Live`),
      fields: {
        ...common,
        changed: { type: scalars.Boolean, description: 'False for what you begin with.' },
        value: { type: value, description: 'The whole answer.' },
      },
    });
  return {
    of(output: JsonSchema, name: string): GraphQLObjectType {
      const record = recordOf(output);
      const type = types.output(record ?? output, `${name}Response`);
      const made = known.get(type);
      if (made) return made;
      const label = 'name' in type ? type.name : capitalised(name);
      const answer = record ? listType(type, label) : valueType(type, name);
      known.set(type, answer);
      return answer;
    },
  };
}
