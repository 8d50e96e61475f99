/** All operations of this module. */
import type { Kernel } from '../../host/kernel.ts';
import type { Operation } from '../../kernel/operations/operation.ts';
import { broadcastOperations } from './operations/broadcasts.ts';
import { chainDefinitionOperations } from './operations/chain-definitions.ts';
import { chainOperations } from './operations/chains.ts';
import { deviceOperations } from './operations/devices.ts';
import { emailOperations } from './operations/email.ts';
import { externalTemplateOperations } from './operations/external-templates.ts';
import { formerConfigOperations } from './operations/former-config.ts';
import { inboxOperations } from './operations/inbox.ts';
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
import type { Parts } from './parts.ts';

export const operationsOf = (kernel: Kernel, parts: Parts): readonly Operation[] => [
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
  ...formerConfigOperations(kernel.config),
];
