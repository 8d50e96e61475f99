/** Communications: messages to people, by mail and text message. */
import type { Kernel } from '../../host/kernel.ts';
import { defineModule, type ModuleContext, type RunningModule } from '../../host/module.ts';
import type { Operation } from '../../kernel/operations/operation.ts';
import { router } from '../router/index.ts';
import { storage } from '../storage/index.ts';
import { legacyModules } from './config/legacy.ts';
import { type CommunicationsConfig, communicationsConfig } from './config.ts';
import { migrations } from './migrations.ts';
import { broadcastOperations } from './operations/broadcasts.ts';
import { ChainDocument, chainDefinitionOperations } from './operations/chain-definitions.ts';
import { chainOperations } from './operations/chains.ts';
import { deviceOperations } from './operations/devices.ts';
import { emailOperations } from './operations/email.ts';
import { externalTemplateOperations } from './operations/external-templates.ts';
import { inboxOperations } from './operations/inbox.ts';
import { legacyConfigOperations } from './operations/legacy-config.ts';
import { messageOperations } from './operations/messages.ts';
import { orchestrationOperations } from './operations/orchestration.ts';
import { partialOperations } from './operations/partials.ts';
import { preferenceOperations } from './operations/preferences.ts';
import { pushOperations } from './operations/push.ts';
import { recordOperations } from './operations/records.ts';
import { smsOperations } from './operations/sms.ts';
import { suppressionOperations } from './operations/suppressions.ts';
import { templateOperations } from './operations/templates.ts';
import { unifiedTemplateOperations } from './operations/unified-templates.ts';
import { webhookOperations } from './operations/webhooks.ts';
import { createParts, type Parts } from './parts.ts';
import { communicationPrompts } from './prompts.ts';
import { communicationTemplateSchema, emailTemplateSchema } from './schemas.ts';
import { chainState } from './services/chain-definitions.ts';
import type { Devices } from './services/devices.ts';
import { isMailSandbox } from './services/email/transports.ts';
import type { Inbox } from './services/inbox.ts';
import type { Messages } from './services/messages.ts';
import type { NotificationInput, Notifier } from './services/notifier.ts';
import type { OfModule } from './services/outgoing.ts';
import type { Relevance } from './services/relevance.ts';
import { channelSettings } from './services/storing.ts';
import type { Templates } from './services/templates.ts';
import { templateState } from './state.ts';
import { partialState, unifiedState } from './state-shared.ts';

export type { Messages } from './services/messages.ts';
export type { PlainEmail, TemplatedEmail } from './services/outgoing.ts';
export type { BuiltInTemplate } from './services/templates.ts';

/** What other modules may ask of communications. */
export interface CommunicationsService {
  readonly messages: Messages;
  readonly templates: Pick<Templates, 'register' | 'onUse'>;
  /** Notifies users: inbox and devices. */
  readonly notifier: {
    broadcast(
      to: Parameters<Notifier['broadcast']>[0],
      input: NotificationInput & OfModule,
    ): ReturnType<Notifier['broadcast']>;
  };
  /** Who wrote a message with `about` is asked about it again before it goes out. */
  readonly relevance: Pick<Relevance, 'register'>;
  readonly inbox: Pick<Inbox, 'add'>;
  readonly devices: Pick<Devices, 'endSessions'>;
  /** Runs when channels are switched on or off; answers how to stop listening. */
  onChannelsChange(listener: () => void): () => void;
}

export const communications = defineModule({
  name: 'communications',
  description: 'Messages to people: mail, text messages, push and inbox, and their templates',
  formerly: legacyModules,
  requires: { router },
  uses: { storage },
  // Its channels can be switched off; other modules build on the service itself.
  essential: true,
  config: communicationsConfig,
  schemas: [emailTemplateSchema, communicationTemplateSchema],
  migrations,
  start,
});

async function start({
  kernel,
  config,
  services: { router: clientSurface },
  optional,
  log,
}: ModuleContext<
  CommunicationsConfig,
  { readonly router: typeof router },
  { readonly storage: typeof storage }
>): Promise<RunningModule<CommunicationsService>> {
  const parts = createParts({
    kernel,
    config: () => config.current(),
    clientUrl: clientSurface.publicUrl,
    log,
    files: {
      readable: async (caller, id) => optional.storage.current()?.files.readable(caller, id),
      read: async (id, signal) => optional.storage.current()?.files.read(id, signal),
    },
  });
  const { messages, templates, partials, unified, notifier, relevance, inbox, devices } = parts;
  kernel.health.register({
    name: 'communications.providers',
    run: async () => parts.delivery.failing(),
  });
  if (isMailSandbox(config.current()))
    log.info({}, 'No mail server is set: messages are captured for operators to read');
  return {
    service: {
      messages,
      templates,
      notifier,
      relevance,
      inbox,
      devices,
      onChannelsChange: (listener) =>
        config.onChange((next, previous) => {
          const switched = (['email', 'sms'] as const).some(
            (channel) =>
              channelSettings(next, channel).active !== channelSettings(previous, channel).active,
          );
          if (switched) listener();
        }),
    },
    operations: operationsOf(kernel, parts),
    prompts: communicationPrompts,
    jobs: parts.jobs,
    state: [
      templateState(kernel.database, templates),
      partialState(partials, templates),
      unifiedState(kernel.database, unified),
      chainState(kernel.database, ChainDocument),
    ],
    async stop() {
      parts.transports.email.close();
      parts.transports.push.close();
    },
  };
}

const operationsOf = (kernel: Kernel, parts: Parts): readonly Operation[] => [
  ...messageOperations(parts.outbox, parts.delivery.health),
  ...emailOperations({
    ...parts,
    fileFor: (caller) => (id) => parts.files.readable(caller, id),
  }),
  ...smsOperations(parts.outbox),
  ...recordOperations(kernel.database, parts.outbox),
  ...webhookOperations(parts.feedback),
  ...suppressionOperations(parts.suppressions),
  ...preferenceOperations(parts.preferences, parts.unsubscribe),
  ...partialOperations(parts.partials),
  ...unifiedTemplateOperations(parts),
  ...orchestrationOperations({ ...kernel, ...parts, available: parts.messages.available }),
  ...chainOperations({ ...kernel, ...parts, available: parts.messages.available }),
  ...chainDefinitionOperations(parts.chainDefinitions),
  ...templateOperations(parts),
  ...externalTemplateOperations(parts.external),
  ...deviceOperations(parts.devices),
  ...inboxOperations(parts.inbox),
  ...broadcastOperations(parts.broadcasts),
  ...pushOperations(parts.notifier, parts.devices),
  ...legacyConfigOperations(kernel.config),
];
