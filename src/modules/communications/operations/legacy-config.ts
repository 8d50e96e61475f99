/**
 * The configuration of mail, text messages and push in the form of the 0.16 line, where each was a module of its own:
 * views of the configuration of communications (spec/compat-v0.16.md section 6).
 */
import Type from 'typebox';
import type { ConfigService } from '../../../kernel/config/config-service.ts';
import { defineOperation, type Operation } from '../../../kernel/operations/operation.ts';
import type { DecodedInput, OperationContext } from '../../../kernel/operations/operation-input.ts';
import {
  email,
  isTree,
  type LegacyModule,
  patchOf,
  push,
  sms,
  type Tree,
} from '../config/legacy.ts';
import { adminFacts } from './shapes.ts';

export const legacyConfigOperations = (config: ConfigService): readonly Operation[] =>
  [email, sms, push].flatMap((legacy) => [
    readOperation(config, legacy, `/admin/${legacy.name}/config`, 'bare'),
    changeOperation(config, legacy, `/admin/${legacy.name}/config`, 'bare'),
    readOperation(config, legacy, `/config/${legacy.name}`, 'wrapped'),
    changeOperation(config, legacy, `/config/${legacy.name}`, 'wrapped'),
  ]);

type Form = 'bare' | 'wrapped';

const facts = { ...adminFacts, legacy: true, mcp: false, graphql: false } as const;
const View = Type.Record(Type.String(), Type.Unknown());
const Answer = Type.Object({ config: Type.Optional(View) }, { additionalProperties: true });

const readOperation = (
  config: ConfigService,
  legacy: LegacyModule,
  path: string,
  form: Form,
): Operation =>
  defineOperation({
    ...facts,
    id: `communications.former.${legacy.name}.read.${form}`,
    method: 'GET',
    path,
    input: {},
    output: Answer,
    summary: `Read the configuration of ${legacy.name}`,
    description:
      'A view of that of communications, for clients of the 0.16 line. Secrets are masked.',
    handler: async ({ caller }) => {
      const stored = await config.read(caller, 'communications');
      return answered(viewOf(legacy, stored.config), form);
    },
  });

const changeOperation = (
  config: ConfigService,
  legacy: LegacyModule,
  path: string,
  form: Form,
): Operation =>
  defineOperation({
    ...facts,
    id: `communications.former.${legacy.name}.change.${form}`,
    method: form === 'bare' ? 'PUT' : 'PATCH',
    path,
    aliases: [{ method: form === 'bare' ? 'PATCH' : 'PUT', path }],
    idempotency: false,
    about: { config: 'inside' },
    input: { body: Type.Object({ config: Type.Optional(View) }, { additionalProperties: true }) },
    output: Answer,
    summary: `Change the configuration of ${legacy.name}`,
    description:
      'A view of that of communications, for clients of the 0.16 line. A provider that is named is switched on unless `active` says otherwise; masked secrets stay as they are.',
    auditChanges: ({ body }: Pick<DecodedInput, 'body'>) => ({
      body: config.maskPatch('communications', { [legacy.name]: patchOf(legacy, body as Tree) }),
    }),
    handler: async (context: OperationContext, { body }) => {
      const changed = await config.change(
        context.caller,
        'communications',
        { [legacy.name]: patchOf(legacy, body) },
        { onDecided: (differences) => context.audited({ changes: { differences } }) },
      );
      return answered(viewOf(legacy, changed.config), form);
    },
  });

const answered = (view: Tree, form: Form): Tree => (form === 'bare' ? view : { config: view });

/** The channel as it is, with the chosen provider under the names of the 0.16 line. */
function viewOf(legacy: LegacyModule, config: Tree): Tree {
  const channel = config[legacy.name];
  if (!isTree(channel)) return {};
  const provider = String(channel[legacy.providerKey] ?? '');
  return { ...channel, provider, [provider]: legacy.read(channel, provider) };
}
