/** Azure Blob Storage against Microsoft's emulator. */
import { startTestAzure } from '../../../../test/support/servers/azure.ts';
import { createAzureProvider } from './azure.ts';
import { describeProvider } from './conformance.ts';

describeProvider(
  'azure',
  async () => {
    const { connectionString, close } = await startTestAzure();
    return { provider: createAzureProvider({ connectionString }), close };
  },
  { keepsContentType: true },
);
