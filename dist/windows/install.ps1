# Installs Shuultuur as a Windows service, which starts with the machine and again after a fault.
# Run as administrator: .\install.ps1 C:\shuultuur
# The folder has shuultuur.exe; settings are written there unless there are some. Update it with
# Stop-Service, a new shuultuur.exe and Start-Service; remove it with sc.exe delete Shuultuur.
param([Parameter(Mandatory)][string]$Dir)
$ErrorActionPreference = 'Stop'
$Dir = (Resolve-Path $Dir).Path
$exe = Join-Path $Dir 'shuultuur.exe'
$config = Join-Path $Dir 'shuultuur.yaml'
if (-not (Test-Path $config)) { & $exe init $Dir }
# The root's key and the record lie here: nobody but administrators and the service may read it.
icacls.exe $Dir /inheritance:r /grant:r '*S-1-5-32-544:(OI)(CI)F' '*S-1-5-18:(OI)(CI)F' '*S-1-5-19:(OI)(CI)M' | Out-Null
if ($LASTEXITCODE -ne 0) { throw "cannot set who may read $Dir" }
& $exe check -config $config
if ($LASTEXITCODE -ne 0) { throw 'the settings have mistakes' }
New-Service -Name Shuultuur -DisplayName Shuultuur -Description 'Filters what this network gets from the web.' `
  -StartupType Automatic -BinaryPathName "`"$exe`" run -config `"$config`"" | Out-Null
sc.exe config Shuultuur obj= 'NT AUTHORITY\LocalService' | Out-Null
if ($LASTEXITCODE -ne 0) { throw 'cannot have the service run as LocalService' }
sc.exe failure Shuultuur reset= 86400 actions= restart/60000 | Out-Null
Start-Service Shuultuur
