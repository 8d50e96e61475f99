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
  type FormerModule,
  isTree,
  patchOf,
  push,
  sms,
  type Tree,
} from '../config/former.ts';
import { adminFacts } from './shapes.ts';

export const formerConfigOperations = (config: ConfigService): readonly Operation[] =>
  [email, sms, push].flatMap((former) => [
    readOperation(config, former, `/admin/${former.name}/config`, 'bare'),
    changeOperation(config, former, `/admin/${former.name}/config`, 'bare'),
    readOperation(config, former, `/config/${former.name}`, 'wrapped'),
    changeOperation(config, former, `/config/${former.name}`, 'wrapped'),
  ]);

type Form = 'bare' | 'wrapped';

const facts = { ...adminFacts, legacy: true, mcp: false, graphql: false } as const;
const View = Type.Record(Type.String(), Type.Unknown());
const Answer = Type.Object({ config: Type.Optional(View) }, { additionalProperties: true });

const readOperation = (
  config: ConfigService,
  former: FormerModule,
  path: string,
  form: Form,
): Operation =>
  defineOperation({
    ...facts,
    id: `communications.former.${former.name}.read.${form}`,
    method: 'GET',
    path,
    input: {},
    output: Answer,
    summary: `Read the configuration of ${former.name}`,
    description:
      'A view of that of communications, for clients of the 0.16 line. Secrets are masked.',
    handler: async ({ caller }) => {
      const stored = await config.read(caller, 'communications');
      return answered(viewOf(former, stored.config), form);
    },
  });

const changeOperation = (
  config: ConfigService,
  former: FormerModule,
  path: string,
  form: Form,
): Operation =>
  defineOperation({
    ...facts,
    id: `communications.former.${former.name}.change.${form}`,
    method: form === 'bare' ? 'PUT' : 'PATCH',
    path,
    aliases: [{ method: form === 'bare' ? 'PATCH' : 'PUT', path }],
    idempotency: false,
    about: { config: 'inside' },
    input: { body: Type.Object({ config: Type.Optional(View) }, { additionalProperties: true }) },
    output: Answer,
    summary: `Change the configuration of ${former.name}`,
    description:
      'A view of that of communications, for clients of the 0.16 line. A provider that is named is switched on unless `active` says otherwise; masked secrets stay as they are.',
    auditChanges: ({ body }: Pick<DecodedInput, 'body'>) => ({
      body: config.maskPatch('communications', { [former.name]: patchOf(former, body as Tree) }),
    }),
    handler: async (context: OperationContext, { body }) => {
      const changed = await config.change(
        context.caller,
        'communications',
        { [former.name]: patchOf(former, body) },
        { onDecided: (differences) => context.audited({ changes: { differences } }) },
      );
      return answered(viewOf(former, changed.config), form);
    },
  });

const answered = (view: Tree, form: Form): Tree => (form === 'bare' ? view : { config: view });

/** The channel as it is, with the chosen provider under the names of the 0.16 line. */
function viewOf(former: FormerModule, config: Tree): Tree {
  const channel = config[former.name];
  if (!isTree(channel)) return {};
  const provider = String(channel[former.providerKey] ?? '');
  return { ...channel, provider, [provider]: former.read(channel, provider) };
}
